"""What each algorithm promises of registers, held by a compiler for one layer; the rooms' long tests take many."""

from __future__ import annotations

import pytest

from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build.pipeline import build

pytestmark = pytest.mark.nvcc
DEPTHWISE = dict(n=8, c=64, h=56, w=56, k=64, groups=64, r=5, s=5, padding=2)
LAYERS = {"channels": dict(DEPTHWISE, layout="NHWC"), "pixels": dict(DEPTHWISE, dtype="uint8"),
          "toeplitz": dict(DEPTHWISE, dtype="float16"),
          "toeplitz_1d": dict(n=8, c=64, h=1, w=2048, k=64, groups=64, r=1, s=31, padding=(0, 15), dtype="float16"),
          "toeplitz_float32": dict(DEPTHWISE, r=13, s=13, padding=6),
          "toeplitz_nhwc": dict(DEPTHWISE, dtype="float16", layout="NHWC"), "wide": DEPTHWISE,
          "mma": dict(n=8, c=16, h=56, w=56, k=32, r=3, s=3, padding=1, dtype="float16", layout="NHWC"),
          "wgmma": dict(n=8, c=64, h=56, w=56, k=64, r=3, s=3, padding=1, dtype="float16", layout="NHWC"),
          "taps": dict(n=8, c=3, h=56, w=56, k=32, r=3, s=3, padding=1, dtype="float16"),
          "staged": dict(DEPTHWISE, h=14, w=14), "patch": dict(DEPTHWISE, r=13, s=13, padding=6)}


@pytest.mark.thin(6)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_defaults_keep_what_the_plan_promises(algorithm):
    shape = ConvShape(**LAYERS.get(algorithm, dict(n=8, c=16, h=56, w=56, k=32, r=3, s=3, padding=1)))
    made = plan_layer(shape, algorithm=algorithm)
    for entry in build(made).compiled.entries if made.cost.no_spills else ():
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
