"""The study ``transposed``: what it holds results against, and a run on the host."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bench.__main__ as main
from bench.devices import HostDevice
from bench.studies import transposed as study
from tests import gradients


@pytest.mark.parametrize("name", ["U-Net 256^2 64-32", "CycleGAN 128^2 128-64", "FSRCNN 256^2 56-1",
                                  "HiFi-GAN 8192 64-32"])
def test_results_are_held_against_float64(name):
    row = replace(next(layer for layer in study.LAYERS if layer.name == name), **study.TRIAL)
    data = study.Operands(HostDevice(), row)
    wanted = gradients.scattered(np.zeros(row.shape.input_shape), data.w.astype("d"), data.x[0].astype("d"),
                                 row.shape)[0]
    np.testing.assert_allclose(data.exact(), wanted[:1, :study.CHECKED], atol=1e-9)


def test_from_end_to_end_on_the_host(tmp_path):
    found = main.run(study.STUDY, tmp_path, quick=True, device=HostDevice())
    rows = [row for row in found.rows.values() if row.get("kind") == "layer"]
    assert len(rows) == 4 and all(row["status"] == "ok" and row["ms"] > 0 for row in rows), rows
    assert "float32 NHWC" in (tmp_path / "README.md").read_text()
