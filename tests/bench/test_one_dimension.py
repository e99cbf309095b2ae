"""The study ``one_dimension``: its rows, what it holds results against, and its tables."""

from __future__ import annotations

import numpy as np
import pytest

import bench.__main__ as main
from bench.devices import HostDevice
from bench.reference import WrongResult
from bench.studies import one_dimension as study
from warpconv.codegen.select import plan_layer

SMALL = {"n": 2, "c": 8, "length": 50}


@pytest.mark.parametrize("operation", study.PASSES)
def test_results_are_held_against_convolutions_in_float64(operation):
    row = study.LineLayer(operation, 4, "float32", "NLC", **SMALL)
    data = study._Operands(HostDevice(), row)
    x, dy, w, b = (array.astype(np.float64) for array in (data.x[0], data.dy[0], data.w[:, 0], data.b))
    assert x.strides[1] < x.strides[2]      # in NLC order
    exact = data.exact()
    for n, c in np.ndindex(2, 2):
        if operation == "forward":
            value = np.convolve(x[n, c], w[c, ::-1])[:50] + b[c]
            assert np.allclose(exact[n, c], value / (1 + np.exp(-value)))
        elif operation == "data_gradient":
            assert np.allclose(exact[n, c], np.convolve(dy[n, c], w[c])[3:])
    if operation == "filter_gradient":
        wanted = [[sum(np.dot(x[n, c, :50 - back], dy[n, c, back:]) for n in range(2)) for back in (3, 2, 1, 0)]
                  for c in range(2)]
        assert exact.shape == (2, 1, 4) and np.allclose(exact[:, 0], wanted)
    wrong = np.zeros_like(data.made[0])
    with pytest.raises(WrongResult, match="relative error 1"):
        study._checked(HostDevice(), wrong, exact, row, "ours")


def test_rows_and_plans_are_planned_and_differ():
    rows = list(study.layers())
    assert len({row.key for row in rows}) == len(rows) == 108
    assert len([row for row in rows if study.is_quick(row)]) == 24
    settings = {}
    for row in study.plans():
        plan = plan_layer(row.layer.plane(row.column), algorithm=row.algorithm, settings=row.settings or None)
        key = row.layer.taps, row.layer.dtype, row.layer.layout, row.column, plan.spec.algorithm, str(plan.settings())
        assert key not in settings or "rule" in settings[key], (row.key, settings[key])
        settings[key] = row.key


@pytest.mark.long
def test_from_end_to_end_on_the_host(tmp_path):
    found = main.run(study.STUDY, tmp_path, quick=True, device=HostDevice())
    rows = [row for row in found.rows.values() if row.get("kind") == "layer"]
    assert len(rows) == 6 and all(row["status"] == "ok" and row["ms"] > 0 for row in rows)
    text = (tmp_path / "README.md").read_text()
    assert "| forward | 4, 7 | float32 NCL | 1 |" in text and "no GPU" in text


def test_tables_have_means_rows_and_plans():
    rows = {f"{taps}/{layout}": {
        "key": "", "status": "ok", "kind": "layer", "operation": "forward", "taps": taps, "dtype": "float16",
        "layout": layout, "ms": 2.0, "copy_ms": 1.0, "of_copy": 0.5, "of_floor": 0.5 if taps == 4 else 0.125,
        "torch_ms": 8.0, "torch_speedup": 4.0, "algorithm": "wide"} for taps in (4, 7) for layout in ("NCL", "NLC")}
    rows["4/NCL"] |= {"triton_ms": 3.0, "triton_speedup": 1.5}
    rows["p"] = {"key": "p", "status": "ok", "kind": "plan", "taps": 4, "dtype": "float16", "layout": "NLC",
                 "name": "rule, row", "algorithm": "channels", "ms": 1.0, "gbs": 9.0}
    rows["x"] = {"key": "x", "status": "failed: x"}
    means, forward, plans, missing = study.tables(rows)
    assert means.rows == (("forward", "4, 7", "float16 NCL", 2, 0.5, 0.25, 0.125, 4.0, 4.0, 1.5),
                          ("forward", "4, 7", "float16 NLC", 2, 0.5, 0.25, 0.125, 4.0, 4.0, None))
    assert len(forward.rows) == 4 and forward.rows[0][-1] == 1.5
    assert plans.rows == ((4, "float16 NLC", "rule, row", "channels", 1.0, 9.0, None),)
    assert missing.rows == (("x", "failed: x"),)
