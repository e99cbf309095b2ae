"""Borders in ``reuse`` and ``implicit_gemm``: images smaller than their padding, their cost, what is refused."""

from __future__ import annotations

import re

import pytest

from tests import checks
from warpconv.codegen.border import Border
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.parts.gemm.tiles import MOST_PLACES, Order
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

MODES = [mode for mode in Border if mode is not Border.ZEROS]
PIXELS = [mode for mode in MODES if mode.reads_image]
by_name = {"ids": lambda mode: mode.value}
on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


def layer(mode: Border, **fields) -> ConvShape:
    value = 0.5 if mode is Border.CONSTANT else 0.0
    return ConvShape(**{**dict(n=2, c=1, k=1, h=40, w=70, r=5, s=5, padding=2, padding_mode=mode, padding_value=value),
                        **fields})


def planned(shape: ConvShape, algorithm: str, arch: str = "sm_90", **values) -> KernelPlan:
    return plan_layer(shape, algorithm=algorithm, arch=arch, settings=values)


# ---- executed, with every access checked

@pytest.mark.thin(9)
@on_cpu_device
@pytest.mark.parametrize("values", [{"edges": "predicated"}, {"edges": "direct"}, {"ring": "shifted"},
                                    {"rows": "reload"}], ids=lambda values: "-".join(values.values()))
@pytest.mark.parametrize("mode", MODES, **by_name)
def test_images_smaller_than_their_padding(mode, values):
    for i, (h, w) in enumerate([(3, 2), (1, 1), (2, 40)]):
        shape = layer(mode, h=h, w=w, padding=((7, 9), (11, 5)))
        checks.check_checked(planned(shape, "reuse", sub_block_rows=7, **values), shape, seed=i)


@pytest.mark.thin(8)
@on_cpu_device
@pytest.mark.parametrize("values", [{"order": "taps"}, {"order": "table"}, {"form": "document"}],
                         ids=lambda values: "-".join(values.values()))
@pytest.mark.parametrize("mode", MODES, **by_name)
def test_a_product_of_images_smaller_than_their_padding(mode, values):
    for i, (h, w) in enumerate([(3, 2), (1, 1), (2, 12)]):
        shape = layer(mode, n=3, c=3, k=6, h=h, w=w, stride=(1, 2), dilation=(2, 1), padding=((7, 9), (11, 5)))
        checks.check_checked(planned(shape, "implicit_gemm", **values), shape, seed=i)


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("mode", PIXELS, **by_name)
def test_a_border_costs_no_further_loads_and_exchanges(mode):
    shape = layer(mode, h=64, w=64)
    made = planned(shape, "reuse", sub_block_rows=16, edges="predicated")
    report, = checks.check_checked(made, shape)
    sub_blocks = 2 * (64 // 16) * (64 // 32)
    assert report.buffers["x"].load_requests == sub_blocks * made.cost.warp_loads
    assert report.shuffles == sub_blocks * made.cost.shuffles


# ---- the text

@pytest.mark.parametrize("mode", MODES, **by_name)
def test_zeros_pay_nothing_and_a_border_has_one_search_for_rows_that_are_loaded_together(mode):
    text = render(planned(layer(mode), "reuse", edges="predicated", prefetch_rows=5)).text
    searches = len(re.findall(r"if \(h < 0 \|\| h \+ 4 >= H\)", text))
    assert searches == (1 if mode.reads_image else 0)
    assert ("inside_c0" in text) == (not mode.reads_image) and ("BORDER" in text) == (mode is Border.CONSTANT)
    inner = render(planned(layer(mode), "reuse", edges="direct")).text
    zeros = render(planned(layer(Border.ZEROS), "reuse", edges="direct")).text
    fast = re.compile(r"// Fast path.*?\n}\n", re.DOTALL)
    assert fast.search(inner).group() == fast.search(zeros).group()


@pytest.mark.parametrize("mode", MODES, **by_name)
def test_a_tap_is_looked_up_once_and_a_value_is_stored(mode):
    """Beside copies, which bring pixels alone."""
    taps = render(planned(layer(mode, c=16, k=16), "implicit_gemm", order="taps")).text
    table = render(planned(layer(mode, c=3, k=16), "implicit_gemm", order="table")).text
    filled = render(planned(layer(mode, c=15, k=16), "implicit_gemm", order="taps")).text
    one_value = mode is Border.CONSTANT
    assert "to[i * PIXEL_ROW] = BORDER;" in taps if one_value else "BORDER" not in taps
    for text in (table, filled):
        assert ("if (!inside) *(to + i * PIXEL_ROW) = BORDER;" in text) == one_value
        assert ("wc_copy_async_if_4(inside, " in text) == one_value
    for text in (taps, table, filled):
        assert ("at_border(" in text) == mode.reads_image
    if mode.reads_image:
        copies = re.compile(r"void copy_pixel_tile.*?\n}\n", re.DOTALL)
        assert "at_border" not in copies.search(taps).group() + copies.search(table).group()


# ---- plans

@pytest.mark.parametrize("mode", PIXELS, **by_name)
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_windows_too_large_for_lists_have_a_plan_without(mode, arch):
    for r, s in ((MOST_PLACES, 3), (2, MOST_PLACES), (60, 40), (3, 500)):
        shape = layer(mode, c=3, k=16, h=700, w=700, r=r, s=s, padding=1)
        made = planned(shape, "implicit_gemm", arch)
        assert made.options.order is Order.TAPS, (r, s)
    assert planned(layer(mode, c=3, k=16, r=1, s=30), "implicit_gemm", arch).options.order is Order.TABLE
    with pytest.raises(UnsupportedSpec, match="bytes of shared memory"):
        planned(layer(mode, c=3, k=16, h=700, w=700, r=3, s=500, padding=1), "implicit_gemm", order="table")


@pytest.mark.parametrize("mode", MODES, **by_name)
def test_the_shared_memory_of_the_plan_is_what_the_lists_take(mode):
    made = planned(layer(mode, c=3, k=16, r=3, s=7, padding=1), "implicit_gemm", order="table", splits=1)
    gemm, options = made.numbers.gemm, made.options
    products = gemm.k_tiles * options.block_k
    lists = products * (4 + 4) + (options.block_n * (3 + 7) * 4 if mode.reads_image else 0)
    assert gemm.shared_bytes == 4 * options.stages * gemm.stage + lists
    assert made.program.steps[-1].shared_bytes == gemm.shared_bytes
