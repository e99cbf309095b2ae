"""The study ``volumes``: what it holds results against, and a run on the host."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bench.__main__ as main
from bench.devices import HostDevice
from bench.reference import WrongResult
from bench.studies import volumes as study
from tests.volumes import Volume


@pytest.mark.parametrize("operation", study.PASSES)
def test_results_are_held_against_float64(operation):
    row = replace(study.VolumeLayer(operation, 3, "float32", **study.TRIAL), n=2)
    data = study.Operands(HostDevice(), row)
    layer = Volume(row.shape, data.x[0], data.w, np.zeros(row.c), data.dy[0])
    exact = data.exact()
    wanted = {"forward": lambda: layer.forward(layer.x, layer.w)[:1, :2],
              "data_gradient": lambda: layer.data_gradient(layer.w, layer.dy)[:1, :2],
              "filter_gradient": lambda: layer.filter_gradient(layer.x, layer.dy)[:2]}[operation]()
    np.testing.assert_allclose(exact, wanted, atol=1e-9)
    with pytest.raises(WrongResult, match="relative error 1"):
        study.checked(HostDevice(), np.zeros_like(exact), exact, 1e-4, "ours")


def test_corners_are_scipys():
    ndimage = pytest.importorskip("scipy.ndimage", reason="SciPy is not installed")
    x = np.random.default_rng(1).standard_normal((30, 30, 30))
    for each in study.filters():
        wanted = np.empty_like(x)
        if each.weights is None:
            each.call(ndimage, x, wanted)
        else:
            ndimage.correlate(x, each.weights, output=wanted)
        np.testing.assert_allclose(study.corner(each, x, 12), wanted[:12, :12, :12], atol=1e-9)


@pytest.mark.long
def test_from_end_to_end_on_the_host(tmp_path):
    found = main.run(study.STUDY, tmp_path, quick=True, device=HostDevice())
    rows = [row for row in found.rows.values() if row.get("kind") in ("layer", "filter")]
    assert len(rows) == 17 and all(row["status"] == "ok" and row["ms"] > 0 for row in rows), rows
    text = (tmp_path / "README.md").read_text()
    assert "| gaussian_filter |" in text and "Filter gradient" in text and "no GPU" in text
