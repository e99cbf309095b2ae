"""The study ``volumes_dense``: what it holds results against, and a run on the host."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bench.__main__ as main
from bench.devices import HostDevice
from bench.studies import volumes_dense as study
from tests.volumes import Volume


@pytest.mark.parametrize("operation", study.PASSES)
@pytest.mark.parametrize("name", ["64^3 64-64", "down 32^3 128-256", "64^3 32-32 groups 4", "up 64^3 64-32"])
def test_results_are_held_against_float64(operation, name):
    layer = next(layer for layer in study.LAYERS if layer.name == name)
    row = replace(layer, **{**study.TRIAL, "n": 2}, c=8, k=8, operation=operation, dtype="float32")
    data = study.Operands(HostDevice(), row)
    volume = Volume(row.shape, data.x[0], data.w, np.zeros(row.k), data.dy[0])
    wanted = {"forward": lambda: volume.forward(volume.x, volume.w),
              "data_gradient": lambda: volume.data_gradient(volume.w, volume.dy),
              "filter_gradient": lambda: volume.filter_gradient(volume.x, volume.dy)}[operation]()
    np.testing.assert_allclose(data.exact(), data.part(wanted), atol=1e-9)


@pytest.mark.long
def test_from_end_to_end_on_the_host(tmp_path):
    found = main.run(study.STUDY, tmp_path, quick=True, device=HostDevice())
    rows = [row for row in found.rows.values() if row.get("kind") == "layer"]
    assert len(rows) == 12 and all(row["status"] == "ok" and row["ms"] > 0 for row in rows), rows
    text = (tmp_path / "README.md").read_text()
    assert "Filter gradient" in text and "float16 NDHWC" in text
