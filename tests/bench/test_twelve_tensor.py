"""The study twelve_tensor: its rows and what its targets say, from rows that are made up."""

from __future__ import annotations

from typing import Any

import pytest

from bench.studies import twelve_tensor as study
from warpconv.codegen.select import plan_layer


def made_up(ratio: float = 2.0, **of_key: float) -> dict[str, dict[str, Any]]:
    """Every row, ours of 10 us and the peer's ``ratio`` times that; of some keys other ratios."""
    found = {}
    for case in study.cases():
        peer, key = case.asked.get("peer", "cudnn"), case.key
        times = {"ours": 10.0, peer: 10.0 * of_key.get(key.replace("/", "_"), ratio)}
        found[key] = {"key": key, "status": "ok", "way": case.way, "name": case.name, "macs": 10 ** 9, "bytes": 10 ** 7,
                      "layout": case.shape.layout.value, "algorithm": "wgmma", "numerics": "float32", "plan": None,
                      **times, "ratio": times[peer] / 10.0, "floor": 7.0, "tflops": 200.0}
    return found


def targets(rows: dict[str, dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    return {row[0]: row for row in next(iter(study.tables(rows))).rows}


def test_rows_are_planned_as_they_are_measured():
    keys = [case.key for case in study.cases()]
    assert len(set(keys)) == len(keys) == 9 * 13 + 12
    chosen = {case.key: case for case in study.cases()}
    assert plan_layer(chosen["sm_80/NHWC/conv9"].shape, algorithm="mma").spec.algorithm == "mma"
    assert study._planned(chosen["sm_80/NHWC/conv9"])().spec.algorithm == "mma"
    assert study._planned(chosen["tf32/NHWC/conv9"])().spec.numerics.value == "tf32"
    assert study._planned(chosen["products/NHWC/64-56-64"])().spec.r == 1
    assert chosen["products/NHWC/64-56-64"].asked == {"peer": "cublas"}


def test_a_target_of_each_layer_is_met_by_the_least_and_names_it():
    found = targets(made_up(2.0, float16_NHWC_conv5=0.9))
    mean, each = found["float16 NHWC: cuDNN / ours, mean"], found["float16 NHWC: cuDNN / ours, each layer"]
    assert mean[2] == pytest.approx((2.0 ** 11 * 0.9) ** (1 / 12), abs=0.01) and mean[-1] == "yes"
    assert each[2:] == (0.9, "12 of 12", "conv5", 0.9, "no")
    assert found["first layers, float32 NCHW: part of the floor, each"][2] == 0.7


def test_the_fourth_layer_of_32_channels_is_in_no_mean():
    assert targets(made_up(2.0, float16_NHWC_conv4=0.1))["float16 NHWC: cuDNN / ours, each layer"][-1] == "yes"


def test_a_target_without_all_its_layers_is_not_met():
    rows = made_up()
    del rows["float32/NCHW/conv1"], rows["tf32/NCHW/conv2"]
    found = targets(rows)
    assert found["float32 NCHW: cuDNN / ours, mean"][2:4] == (2.0, "11 of 12")
    assert found["float32 NCHW: cuDNN / ours, mean"][-1] == "no"
    assert found["float32 NCHW: cuDNN's TF32 / our default, mean"][-1] == "no"


def test_the_portable_form_is_held_against_what_is_taken():
    rows = made_up()
    for name in study.TWELVE:
        rows[f"sm_80/NHWC/{name}"]["ours"] = 25.0
    found = targets(rows)["float16 NHWC: what sm_80 has, beside what is taken, mean"]
    assert found[2] == 0.4 and found[-1] == "no"


def test_products_stand_beside_cublas():
    made = {table.title: table for table in study.tables(made_up(1.5))}
    assert made["products, NHWC"].columns[4] == "cuBLAS us" and made["products, NHWC"].rows[0][4] == 15.0
    assert made["float16, NHWC"].columns[4] == "cuDNN us"


def test_the_roofline_shows_ours_and_cudnns():
    figures = pytest.importorskip("matplotlib.figure")
    drawn = []
    for rows in (made_up(), {}):
        figure = figures.Figure()
        study.STUDY.plot(rows, figure)
        drawn.append(sum(len(collection.get_offsets()) for collection in figure.axes[0].collections))
    assert drawn == [2 * 6 * 13, 0]
