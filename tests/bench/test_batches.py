"""The study ``batches``: from end to end on the host, what it holds results against, and its table."""

from __future__ import annotations

import numpy as np
import pytest

import bench.__main__ as main
from bench.devices import HostDevice
from bench.reference import WrongResult
from bench.studies import batches as study
from tests import checks


def test_sizes_are_drawn_once_and_for_all():
    sizes = study.drawn_sizes(False)
    assert len(sizes) == 1000 and sizes == study.drawn_sizes(False)
    assert min(map(min, sizes)) >= 64 and 500 < max(map(max, sizes)) <= 512
    assert np.linalg.matrix_rank(study.TAPS) > 1        # never by factors


def calls(results):
    return {"list": lambda: results, "out": lambda: None}


def test_results_are_held_against_each_images_own():
    row, images = study.Row("5x5", "float32"), [np.ones((3, 4), np.float32), np.ones((5, 2), np.float32)]
    good = [row.call(image, device="cpu") for image in images]
    bad = [good[0], good[1] + 0.5]
    for results, outputs in ((bad, good), (good, bad)):
        with pytest.raises(WrongResult, match="image 1 differs in 10 pixels"):
            study._check(HostDevice(), row, calls(results), {}, images, outputs)
    study._check(HostDevice(), row, calls(good), {}, images, good)


@pytest.mark.long
@pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
def test_from_end_to_end_on_the_host(tmp_path):
    found = main.run(study.STUDY, tmp_path, device=HostDevice())
    assert [row["status"] for row in found.rows.values()] == ["ok"] * 6
    assert all(row["list_ms"] > 0 and row["each_ms"] > 0 and row["images"] == 6 for row in found.rows.values())
    text = (tmp_path / "README.md").read_text()
    assert "| own 5x5 | uint8 | 6 |" in text and "the CPU device" in text
