"""A planner that fails declines its algorithm, in words; it ends no call that another can serve."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest

import warpconv
from warpconv.codegen import registry, select
from warpconv.codegen.algorithms.channels import lines, plan as channels
from warpconv.codegen.errors import PlannerError, UnsupportedSpec
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.layers import NamedLayer
from warpconv.runtime.tuning.space import Space

LAYER = ConvShape(c=1, h=8, w=8, k=1, r=3, s=3)


def conv(x, w, *, stride, groups):
    """NHWC in float64, one tap after the other."""
    n, h, width, c = x.shape
    k, each, r, s = w.shape
    p, q = (h - r) // stride + 1, (width - s) // stride + 1
    y = np.zeros((n, p, q, k))
    for f in range(k):
        first = f // (k // groups) * each
        for i in range(r):
            for j in range(s):
                rows, columns = slice(i, i + p * stride, stride), slice(j, j + q * stride, stride)
                y[..., f] += (x[:, rows, columns, first:first + each].astype(float)
                              * w[f, :, i, j].astype(float)).sum(-1)
    return y


@pytest.mark.parametrize("image, filters, stride", [((1, 128, 128, 2), (2, 1, 32, 32), 32),
                                                    ((1, 70, 130, 2), (4, 1, 63, 63), 61)])
def test_filters_that_fill_more_than_the_registers(image, filters, stride):
    """D4: no warp stays resident with the least plan values of channels, and its price divided by their number."""
    rng = np.random.default_rng(4)
    x, w = (rng.integers(-9, 10, size).astype(np.float32) for size in (image, filters))     # whose sums are exact
    y = warpconv.conv2d(x, w, stride=stride, groups=2, layout="NHWC", device="cpu")
    np.testing.assert_array_equal(y, conv(x, w, stride=stride, groups=2))
    shape = ConvShape(c=image[3], h=image[1], w=image[2], k=filters[0], r=filters[2], s=filters[3], groups=2,
                      stride=stride, layout="NHWC")
    with pytest.raises(UnsupportedSpec, match="registers|products") as error:
        warpconv.plan_layer(shape, algorithm="channels")
    assert not isinstance(error.value, PlannerError)


@pytest.mark.parametrize("module", [channels, lines])
def test_no_warps_are_never_counted(module, monkeypatch):
    spec = warpconv.plan_layer(ConvShape(c=32, h=56, w=56, k=32, r=3, s=3, groups=32, padding=1, layout="NHWC"),
                               algorithm="channels").spec
    monkeypatch.setattr(module, "registers_of", lambda *args: 10**6)
    assert module._warps(spec, None, None) >= 1


@pytest.fixture(params=["supports", "defaults", "plan", "estimate"])
def broken(request, monkeypatch):
    """The name of the function of wide, the algorithm that serves LAYER, that fails."""
    def fail(*args):
        return 1 // 0

    row = replace(registry.ALGORITHMS["wide"], **{request.param: fail})
    monkeypatch.setitem(registry.ALGORITHMS, "wide", row)
    return request.param


def test_a_failing_planner_declines(broken, caplog):
    with caplog.at_level(logging.WARNING, "warpconv.plan"):
        assert warpconv.select(LAYER).algorithm != "wide"
        answer = next(c for c in warpconv.explain(LAYER) if c.algorithm == "wide")
    assert not answer.supported and "ZeroDivisionError" in answer.reason and broken in answer.reason
    assert any(record.exc_info and "wide" in record.getMessage() for record in caplog.records)


def test_a_failing_planner_that_was_named_is_a_typed_error(broken):
    if broken == "estimate":        # which nobody asks for, where the algorithm is named
        assert warpconv.plan_layer(LAYER, algorithm="wide").spec.algorithm == "wide"
        return
    with pytest.raises(UnsupportedSpec, match="its planner failed"):
        warpconv.plan_layer(LAYER, algorithm="wide")


def test_a_failing_planner_ends_neither_a_build_nor_a_search(broken, tmp_path):
    report = warpconv.build_pack([NamedLayer(name="one", shape=LAYER, algorithm="wide")], tmp_path / "pack", "sm_90")
    assert [row.status for row in report.rows] == ["declined"]
    found = Space(shape=LAYER, arch=warpconv.select(LAYER).spec.arch).configurations(["wide", "direct"])
    assert {made.algorithm for made in found if made.plan is not None} >= {"direct"}


def test_a_generator_that_fails_as_it_is_walked():
    def space(spec):
        yield 1 // 0

    with pytest.raises(PlannerError):
        replace(registry.ALGORITHMS["wide"], space=space).space(select.select(LAYER))


def test_a_planner_s_own_refusal_stays_as_it_is():
    spec = select.select(LAYER)
    refusal = UnsupportedSpec(spec, "no")

    def plan(spec, options):
        raise refusal

    with pytest.raises(UnsupportedSpec) as error:
        replace(registry.ALGORITHMS["wide"], plan=plan).plan(spec, None)
    assert error.value is refusal
