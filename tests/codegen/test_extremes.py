"""Layers as large as they may be are planned in the time and memory of small ones, and no text grows without bound."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

from warpconv.codegen import render as rendering
from warpconv.codegen.errors import ShapeError, UnsupportedSpec
from warpconv.codegen.parts.text import MOST_BYTES
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.render import render
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import LARGEST_PADDING, LARGEST_SIZE, ConvShape

CANDIDATE_SECONDS = 0.05
ALL_SECONDS = 0.25      # of all candidates
LOADED = 4              # a busy machine's factor, and that of a slow one
BYTES_HELD = 32 << 20   # of a list of candidates, at most
SIDES = (1, 3, 8, 57, 4096, 10**7, LARGEST_SIZE)
STEPS = (1, 2, 3, 31, 32, 100, 700, 2**14, 2**24, 2**30)
FILTERS = (1, 2, 3, 5, 15, 31, 63, 64, 200, 2000)
KINDS = (("float32", "NCHW", "zeros"), ("float32", "NHWC", "zeros"), ("float16", "NCHW", "reflect"),
         ("float16", "NHWC", "circular"), ("uint8", "NCHW", "replicate"), ("uint8", "NHWC", "zeros"))
# what was seen to take seconds, gigabytes or minutes of a compiler
SEEN = ({"h": 10**7, "w": 8}, {"h": 2 * 10**9, "w": 1, "s": 1}, {"h": 2**24 + 5, "stride": (2**24, 1)},
        {"stride": 2**30},
        {"w": 2**24 + 5, "stride": (1, 2**24)}, {"h": 2**26, "dilation": (2**24, 1)},
        {"w": 2**26, "dilation": (1, 2**24)}, {"padding": LARGEST_PADDING}, {"n": 2**30},
        {"h": 512, "w": 512, "r": 63, "s": 63}, {"h": 3000, "w": 3000, "r": 2000, "s": 2000},
        {"h": 3, "w": 2 * 10**6, "r": 1, "s": 10**6},
        {"c": 3, "k": 3, "groups": 3, "h": 512, "w": 512, "r": 15, "s": 15, "stride": (32, 1)},
        {"h": 2048, "w": 512, "stride": (700, 1)}, {"c": 10**6, "k": 64}, {"c": 10**6, "k": 10**6, "groups": 10**6})


def layers(seed: int, count: int) -> list[ConvShape]:
    """Those that were seen, and drawn ones; of all types and layouts."""
    rng = np.random.default_rng(seed)

    def one(choices):
        return choices[int(rng.integers(len(choices)))]

    fields = [dict(seen) for seen in SEEN]
    while len(fields) < count:
        c = one((1, 1, 3, 8, 10**6))
        fields.append({"n": one((1, 1, 64, 2**20)), "c": c, "k": c, "groups": one((c, c, 1)) if c < 100 else c,
                       "h": one(SIDES), "w": one(SIDES), "r": one(FILTERS), "s": one(FILTERS),
                       "stride": (one(STEPS), one(STEPS)), "dilation": (one(STEPS), one(STEPS)),
                       "padding": one((0, 0, 1, 31, LARGEST_PADDING))})
    found = []
    for values in fields:
        dtype, layout, border = one(KINDS)
        try:
            found.append(ConvShape(**{"c": 1, "k": 1, "h": 64, "w": 64, "r": 3, "s": 3, **values}, dtype=dtype,
                                   layout=layout, padding_mode=border))
        except ShapeError:      # larger than memory can be, or without an output
            pass
    return found


@pytest.fixture(scope="module", autouse=True)
def first_plans() -> None:
    """What is looked up once in a process is no layer's time."""
    for dtype, layout, border in KINDS:
        explain(ConvShape(c=8, k=8, groups=8, h=64, w=64, r=3, s=3, dtype=dtype, layout=layout, padding_mode=border))


@pytest.mark.thin(2)
@pytest.mark.parametrize("seed", range(4))
def test_any_size_is_planned_in_the_same_time(seed: int) -> None:
    drawn = layers(seed, 80)
    assert len(drawn) > 12
    for layer in drawn:
        begin = time.process_time()
        found = explain(layer)
        taken = time.process_time() - begin
        assert taken < LOADED * ALL_SECONDS, f"{taken:.2f} s for {layer}"
        assert any(c.supported and c.algorithm == "direct" for c in found), layer


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dilation", [1, (3, 32), (2, 3)])
def test_windows_of_thousands_of_elements_are_planned_at_once(dtype, layout, dilation) -> None:
    """First layers' tiles, of which there are hundreds, are looked at one by one."""
    for c, r, s in ((8, 31, 64), (8, 15, 30), (4, 33, 33), (1, 31, 200), (12, 21, 21)):
        layer = ConvShape(n=8, c=c, k=16, h=4096, w=8192, r=r, s=s, dilation=dilation, dtype=dtype, layout=layout)
        begin = time.process_time()
        explain(layer)
        taken = time.process_time() - begin
        assert taken < LOADED * ALL_SECONDS, f"{taken:.2f} s for {layer}"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_candidate_takes_no_longer_than_a_moment(name: str) -> None:
    for layer in layers(9, 24):
        times = []
        for _ in range(3):      # a busy machine's, too
            begin = time.process_time()
            try:
                plan_layer(layer, algorithm=name)
            except UnsupportedSpec:
                pass
            times.append(time.process_time() - begin)
            if times[-1] < CANDIDATE_SECONDS:
                break
        assert min(times) < LOADED * CANDIDATE_SECONDS, f"{min(times):.3f} s for {layer}"


def test_any_size_is_planned_in_the_same_memory() -> None:
    drawn = layers(5, 40)
    tracemalloc.start()
    try:
        for layer in drawn:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            explain(layer)
            assert tracemalloc.get_traced_memory()[1] - before < BYTES_HELD, layer
    finally:
        tracemalloc.stop()


@pytest.mark.long
def test_planned_texts_are_within_the_limit() -> None:
    """Every candidate's, not the chosen one's alone: planners decline what would be longer before it is rendered."""
    for layer in layers(3, 40):
        for candidate in explain(layer):
            if candidate.plan is not None:
                assert len(render(candidate.plan).text) <= MOST_BYTES


@pytest.mark.thin(8)
@pytest.mark.parametrize("r, s, stride", [(63, 63, 1), (63, 31, 2), (45, 45, (2, 1)), (31, 63, (1, 2)), (1, 63, 4),
                                          (129, 1, 1)])
@pytest.mark.parametrize("dtype, layout", [("float32", "NCHW"), ("float16", "NCHW"), ("float16", "NHWC"),
                                           ("uint8", "NCHW"), ("uint8", "NHWC")])
def test_texts_of_large_filters_are_within_the_limit(r, s, stride, dtype, layout) -> None:
    layer = ConvShape(c=3, k=3, groups=3, h=200, w=200, r=r, s=s, stride=stride, dtype=dtype, layout=layout,
                      padding=(r // 2, s // 2), padding_mode="reflect")
    for candidate in explain(layer, epilogue=("silu",)):
        if candidate.plan is not None:
            assert len(render(candidate.plan).text) <= MOST_BYTES


def test_a_text_that_is_too_long_is_an_error_in_words(monkeypatch) -> None:
    made = plan_layer(ConvShape(c=1, k=1, h=64, w=64, r=3, s=3), algorithm="wide")
    monkeypatch.setattr(rendering, "MOST_BYTES", 1000)
    with pytest.raises(UnsupportedSpec, match=r"its text has \d+ bytes \(at most 1000\).*direct") as error:
        render(made)
    assert error.value.spec is made.spec


@pytest.mark.parametrize("name, dtype", [("wide", "float32"), ("pixels", "uint8")])
@pytest.mark.parametrize("stride", [(32, 1), (1, 32), (700, 1)])
def test_strides_that_would_be_unrolled_are_declined(name, dtype, stride) -> None:
    layer = ConvShape(c=3, k=3, groups=3, h=2048, w=512, r=15, s=15, stride=stride, dtype=dtype)
    with pytest.raises(UnsupportedSpec, match="which are all loaded"):
        plan_layer(layer, algorithm=name)


def test_steps_that_would_spill_are_declined() -> None:
    layer = ConvShape(c=3, k=3, groups=3, h=512, w=512, r=15, s=63, stride=(8, 1))
    with pytest.raises(UnsupportedSpec, match="registers, most of which would be spilled"):
        plan_layer(layer, algorithm="wide")


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_direct_keeps_its_loops(layout: str) -> None:
    """No compiler unrolls the taps of a filter that is taller or wider than others."""
    for r, s in ((63, 63), (2000, 2000), (1, 10**6)):
        layer = ConvShape(c=64, k=64, h=3000, w=2 * 10**6 if s == 10**6 else 3000, r=r, s=s, layout=layout)
        made = plan_layer(layer, algorithm="direct")
        text = render(made).text
        assert len(text) < 10_000
        loops = text.split("for (int r = 0;")[0].rsplit("#pragma unroll", 1)[1], text.split("for (int s = 0;")[0]
        assert loops[0].startswith(" 1")
        assert loops[1].rsplit("#pragma unroll", 1)[1].startswith(" 1") is (s * made.options.k_tile > 512 or
                                                                           layout == "NHWC" and s > 16)
