"""What sm_75 lacks is in no text for it: asynchronous copies, and instructions of later tensor cores."""

import itertools
import re

import pytest

from tests.algorithms import ROWS
from warpconv import ConvShape, plan_layer
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.render import render
from warpconv.codegen.spec import KernelSpec

LATER = re.compile(r"cp\.async|mbarrier|wgmma|setmaxnreg|mma\.sp|bf16x2|griddepcontrol")
LAYERS = [{"c": c, "k": c, "groups": groups, "h": h, "w": h, "r": r, "s": r, "padding": r // 2, "dtype": dtype,
           "layout": layout}
          for (c, groups), h, r, dtype, layout in itertools.product(((1, 1), (16, 16), (16, 1)), (7, 56), (3, 6, 13),
                                                                    ("float32", "float16"), ("NCHW", "NHWC"))]


@pytest.mark.thin(6)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_texts_for_sm_75_hold_nothing_of_later_ones(algorithm):
    served = 0
    for sizes in (*LAYERS, ROWS[algorithm].typical):
        try:
            made = plan_layer(ConvShape(**{"n": 8, **sizes}), algorithm=algorithm, arch="sm_75")
        except UnsupportedSpec:
            continue
        served += 1
        assert not LATER.search(render(made).text), sizes
    if not served:
        spec = KernelSpec.of(ConvShape(**ROWS[algorithm].typical), algorithm=algorithm, arch=Arch.parse("sm_75"))
        assert "sm_75" in ALGORITHMS[algorithm].supports(spec)


@pytest.mark.parametrize("arch, converts", [("sm_75", False), ("sm_80", True), ("sm_89", True), ("sm_90", True)])
def test_bfloat16_is_made_by_the_instruction_where_there_is_one(arch, converts):
    shape = ConvShape(c=1, k=1, h=56, w=56, r=3, s=3, dtype="bfloat16")
    text = render(plan_layer(shape, algorithm="direct", arch=arch)).text
    assert ("cvt.rn.bf16.f32" in text) is converts
