"""Emitted text says nothing idle: what it declares it uses, no factor is one, and no line is too long."""

from __future__ import annotations

import pytest

from tests import algorithms, cases, emitted, golden, settings
from warpconv.codegen.render import render

TEXTS = [(room, name) for room in algorithms.ROOMS for name in golden.names(room)]
FAULTY = """
constexpr int SIDE = 4, ONE = 1, NONE = 0;
struct Row { float own, edge; };
__device__ __forceinline__ float twice(float value, int place) { return value + value; }
__device__ __forceinline__ float half(float value) { return 0.5f * value; }
template <bool INTERIOR>
__device__ __forceinline__ float load(const float* x) { return INTERIOR ? x[0] : 0.0f; }
extern "C" __global__ void kernel(const float* x, float* y, int N) {
    const int lane = threadIdx.x, warp = lane / 32;
    int steps = 0;
    steps = lane;
    Row row;
    row.own = twice(load<false>(x), lane * ONE + NONE);
    y[lane * 1] = row.own;
}
"""
FOUND = {"constant SIDE is not used", "member edge is not used", "parameter place is not used",
         "variable steps is not used", "function half is not used", "variable warp is not used",
         "load<true> is never called",
         "* ONE + (by 1)", "+ NONE ) (a term of nothing)", "* 1 ] (by 1)"}


def test_the_reader_finds_what_is_idle():
    assert {fault.split(": ", 1)[1] for fault in emitted.faults(FAULTY)} == FOUND
    assert emitted.faults("// " + "x" * 200) == ["1: 203 characters"]


@pytest.mark.thin(4)
@pytest.mark.parametrize("room, name", TEXTS)
def test_a_reviewed_text_says_nothing_idle(room, name):
    assert not emitted.faults((golden.folder(room) / f"{name}.cu").read_text(encoding="utf-8"))


@pytest.mark.long
def test_no_variant_says_anything_idle():
    found = {case.id: emitted.faults(render(case.plan()).text) for name in algorithms.EVERY
             for case in settings.share(cases.variants(name), of=4)}
    assert len(found) > 200 and not {name: faults for name, faults in found.items() if faults}
