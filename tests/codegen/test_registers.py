"""What each algorithm promises of registers, held by a compiler for one layer; the rooms' long tests take many."""

from __future__ import annotations

import pytest

from warpconv.codegen.numerics import Numerics
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build.pipeline import build

pytestmark = pytest.mark.nvcc
DEPTHWISE = dict(n=8, c=64, h=56, w=56, k=64, groups=64, r=5, s=5, padding=2)
LAYERS = {"channels": dict(DEPTHWISE, layout="NHWC"), "pixels": dict(DEPTHWISE, dtype="uint8"),
          "toeplitz": dict(DEPTHWISE, dtype="float16"),
          "toeplitz_1d": dict(n=8, c=64, h=1, w=2048, k=64, groups=64, r=1, s=31, padding=(0, 15), dtype="float16"),
          "toeplitz_1d_nhwc": dict(n=8, c=64, h=2048, w=1, k=64, groups=64, r=31, s=1, padding=(15, 0), dtype="float16",
                                   layout="NHWC"),
          "toeplitz_float32": dict(DEPTHWISE, r=13, s=13, padding=6),
          "toeplitz_nhwc": dict(DEPTHWISE, dtype="float16", layout="NHWC"), "wide": DEPTHWISE,
          "mma": dict(n=8, c=16, h=56, w=56, k=32, r=3, s=3, padding=1, dtype="float16", layout="NHWC"),
          "wgmma": dict(n=8, c=64, h=56, w=56, k=64, r=3, s=3, padding=1, dtype="float16", layout="NHWC"),
          "taps_float32": dict(n=8, c=3, h=56, w=56, k=32, r=7, s=7, padding=3),
          "sequence": dict(n=8, c=64, h=1, w=2048, k=64, groups=64, r=1, s=31, padding=(0, 15)),
          "pointwise": dict(n=8, c=64, h=56, w=56, k=96, r=1, s=1),
          "taps_ieee": dict(n=8, c=3, h=56, w=56, k=32, r=3, s=3, padding=1, layout="NHWC"),
          "grouped": dict(n=8, c=64, h=56, w=56, k=64, groups=16, r=3, s=3, padding=1, layout="NHWC"),
          "taps_wgmma": dict(n=8, c=3, h=56, w=56, k=32, r=7, s=7, padding=3, dtype="float16"),
          "taps": dict(n=8, c=3, h=56, w=56, k=32, r=3, s=3, padding=1, dtype="float16"),
          "staged": dict(DEPTHWISE, h=14, w=14), "patch": dict(DEPTHWISE, r=13, s=13, padding=6)}


@pytest.mark.thin(36)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_defaults_keep_what_the_plan_promises(algorithm):
    shape = ConvShape(**LAYERS.get(algorithm, dict(n=8, c=16, h=56, w=56, k=32, r=3, s=3, padding=1)))
    rounded = ALGORITHMS[algorithm].float32 == (Numerics.TF32,)
    made = plan_layer(shape, algorithm=algorithm, precision="tf32" if rounded else "float32")
    for entry in build(made).compiled.entries if made.cost.no_spills else ():
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry


# what the default plan had spilled more of than a pack takes, and conv2d launched (the operation, the architecture)
SPILLED = [
    ("forward", "sm_120", "direct", dict(n=1, h=7, w=14, c=3, k=3, r=3, s=7, groups=3, layout="NHWC")),
    ("forward", "sm_120", "direct", dict(n=64, h=17, w=34, c=12, k=12, r=5, s=9, groups=12, layout="NHWC")),
    ("forward", "sm_120", "direct", dict(n=16, h=7, w=31, c=12, k=12, r=3, s=7, groups=12, layout="NHWC", padding=5,
                                         stride=3, padding_mode="replicate", dtype="uint8")),
    ("forward", "sm_86", "staged", dict(n=16, h=1, w=112, c=8, k=8, r=3, s=3, groups=8, dilation=2, padding=3,
                                        padding_mode="circular", dtype="float16")),
    ("forward", "sm_86", "implicit_gemm", dict(n=128, c=512, h=14, w=14, k=144, r=1, s=1)),
    ("forward", "sm_75", "implicit_gemm", dict(n=32, c=832, h=7, w=7, k=160, r=1, s=1)),
    ("forward", "sm_120", "staged", dict(n=16, h=4, w=112, c=8, k=8, r=3, s=3, groups=8, padding=1,
                                         padding_mode="replicate", dtype="float16"))]


@pytest.mark.long
@pytest.mark.parametrize("operation, arch, algorithm, layer", SPILLED)
def test_defaults_that_had_spilled(operation, arch, algorithm, layer):
    made = plan_layer(ConvShape(**layer), arch=arch, operation=operation)
    assert made.spec.algorithm == algorithm and made.cost.no_spills
    for entry in build(made).compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
