"""What each algorithm promises of registers, held by a compiler for one layer; the rooms' long tests take many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.algorithms import ROWS
from tests.drawn import numpy_choose
from warpconv.codegen.errors import ShapeError
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.pack.build import FEW_SPILLED

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
                                         padding_mode="replicate", dtype="float16")),
    ("forward", "sm_90", "taps_wgmma", dict(n=128, c=8, h=225, w=227, k=24, r=5, s=5, stride=3, padding=1,
                                            padding_mode="reflect", dtype="bfloat16", layout="NHWC")),
    ("forward", "sm_89", "taps_mma", dict(n=32, c=6, h=7, w=28, k=80, r=1, s=7, stride=3, padding=3, dilation=2,
                                          padding_mode="circular", dtype="bfloat16", layout="NHWC")),
    ("forward", "sm_80", "taps_mma", dict(n=8, c=2, h=56, w=640, k=64, r=13, s=13, stride=3, dilation=4,
                                          dtype="bfloat16")),
    ("forward", "sm_100", "taps_mma", dict(n=1, c=3, h=224, w=640, k=128, r=7, s=7, dilation=4, dtype="float16")),
    ("forward", "sm_89", "grouped", dict(n=128, c=16, h=225, w=35, k=32, r=1, s=7, dilation=2, groups=4,
                                         layout="NHWC")),
    ("forward", "sm_120", "taps_mma", dict(n=128, c=3, h=227, w=227, k=96, r=11, s=11, stride=4, dtype="float16")),
    ("forward", "sm_100", "taps_mma", dict(n=128, c=3, h=231, w=231, k=96, r=11, s=11, stride=4, dtype="float16")),
    ("forward", "sm_80", "taps_mma", dict(n=128, c=8, h=112, w=224, k=64, r=7, s=7, padding=3, dtype="bfloat16",
                                          layout="NHWC")),
    ("forward", "sm_80", "taps_ieee", dict(n=8, c=4, h=35, w=227, k=96, r=1, s=7, padding=3, layout="NHWC")),
    ("forward", "sm_80", "mma", dict(n=32, c=58, h=227, w=227, k=116, r=3, s=1, padding=(1, 0), stride=2,
                                     dtype="float16", layout="NHWC")),
    ("forward", "sm_100", "mma", dict(n=32, c=232, h=299, w=303, k=16, r=11, s=11, padding=(0, 5), groups=2,
                                      dtype="float16")),
    ("filter_gradient", "sm_90", "hankel", dict(n=32, c=672, h=112, w=112, k=672, r=2, s=2, groups=672, padding=1,
                                                stride=3, dtype="float16", layout="NHWC")),
    ("filter_gradient", "sm_90", "hankel", dict(n=32, c=96, h=56, w=56, k=96, r=7, s=7, groups=96, padding=3,
                                                stride=4, dtype="bfloat16", layout="NHWC"))]


@pytest.mark.long
@pytest.mark.parametrize("operation, arch, algorithm, layer", SPILLED)
def test_defaults_that_had_spilled(operation, arch, algorithm, layer):
    made = plan_layer(ConvShape(**layer), arch=arch, operation=operation)
    assert made.spec.algorithm == algorithm and made.cost.no_spills
    for entry in build(made).compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry


def drawn(seed: int) -> tuple[ConvShape, dict[str, Any]] | None:
    """A layer such as people have, with what goes beside it; None where its windows do not fit."""
    choose = numpy_choose(np.random.default_rng(seed))
    groups, c, k = choose(((1, choose((1, 3, 4, 8, 12)), choose((16, 24, 64, 96))),
                           (1, choose((16, 48, 116, 256)), choose((2, 24, 64, 256))),
                           (choose((4, 32)), choose((4, 8, 32)), choose((4, 16, 32))),
                           (choose((16, 96, 672)), 1, choose((1, 2)))))
    r, s = choose(((1, 1), (3, 3), (3, 3), (5, 5), (7, 7), (11, 11), (1, 7), (2, 2), (3, 9)))
    dtype = choose(("float16", "bfloat16", "float32", "float32"))
    operation = choose(("forward", "forward", "data_gradient", "filter_gradient"))
    epilogues = ((), ("bias", "relu"), ("bias", "residual", "silu")) if operation == "forward" else ((),)
    beside = {"arch": choose(("sm_80", "sm_89", "sm_90", "sm_100", "sm_120")), "operation": operation,
              "epilogue": choose(epilogues)}
    try:
        return ConvShape(n=choose((1, 8, 32, 128)), c=c * groups, k=k * groups, groups=groups, r=r, s=s,
                         h=choose((7, 14, 28, 35, 56, 224)), w=choose((7, 14, 28, 56, 227, 640)),
                         stride=choose((1, 1, 2, 3)), dilation=choose((1, 1, 1, 2)), padding=choose((0, 1, 3)),
                         padding_mode=choose(("zeros", "zeros", "reflect", "circular")), dtype=dtype,
                         layout=choose(("NCHW", "NHWC"))), beside
    except ShapeError:
        return None


# volumes whose default plan promised registers and spilled 72 to 96 bytes
VOLUMES = [
    ("forward", "sm_100", dict(n=1, c=32, k=32, groups=32, d=30, h=66, w=40, t=3, r=3, s=3, dtype="float16",
                               layout="NHWC", padding_mode="reflect")),
    ("data_gradient", "sm_120", dict(n=1, c=64, k=64, groups=64, d=16, h=24, w=40, t=3, r=3, s=3, dtype="float16",
                                     layout="NHWC", padding=1)),
    ("filter_gradient", "sm_90a", dict(n=1, c=32, k=32, groups=32, d=17, h=53, w=57, t=2, r=2, s=2, dtype="bfloat16",
                                       padding=1)),
    ("filter_gradient", "sm_120", dict(n=1, c=1, k=64, d=20, h=41, w=78, t=1, r=3, s=3, layout="NHWC", stride=2,
                                       padding=1))]


@pytest.mark.long
@pytest.mark.parametrize("operation, arch, layer", VOLUMES)
def test_packs_take_volumes(operation, arch, layer):
    made = plan_layer(ConvShape(**layer), arch=arch, operation=operation)
    most = max(entry.stack_bytes for entry in build(made).compiled.entries)
    assert most <= FEW_SPILLED or not made.cost.no_spills, (made.options, most)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(0, 160, 10))
def test_packs_take_what_is_chosen(seed):
    """A kernel that spills more than FEW_SPILLED though its plan promises registers is left out of a pack."""
    for shape, beside in filter(None, map(drawn, range(seed, seed + 10))):
        made = plan_layer(shape, **beside)
        for entry in build(made).compiled.entries if made.cost.no_spills else ():
            assert entry.stack_bytes <= FEW_SPILLED, (shape, beside, made.options, entry)
