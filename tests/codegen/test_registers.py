"""What each algorithm promises of registers, held by a compiler for one layer; the rooms' long tests take many."""

from __future__ import annotations

import pytest

from tests.algorithms import ROWS
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build.pipeline import build

pytestmark = pytest.mark.nvcc


@pytest.mark.thin(36)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_defaults_keep_what_the_plan_promises(algorithm):
    shape = ConvShape(**ROWS[algorithm].typical)
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
