"""``implicit_gemm`` and ``im2win``: what is planned and refused, what the CPU device and compilers make of it."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests import checks, reference, settings
from tests.axes import BIAS, RELU
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.accuracy.measure import measure
from warpconv.runtime.build import compilers, disassembly as sass
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.devices.cpu import Mode

BOTH = ("implicit_gemm", "im2win")
PARTS = ("prefetch", "vector_loads", "micro_kernel")
TILE = dict(block_m=128, block_n=128, block_k=8, thread_m=8, thread_n=8, stages=2)
# (C, H = W, K, R = S, stride): the twelve layers of the documents' comparison
LAYERS = ((3, 227, 96, 11, 4), (3, 231, 96, 11, 4), (3, 227, 64, 7, 2), (64, 224, 64, 7, 2), (96, 24, 256, 5, 1),
          (256, 12, 512, 3, 1), (3, 224, 64, 3, 1), (64, 112, 128, 3, 1), (64, 56, 64, 3, 1), (128, 28, 128, 3, 1),
          (256, 14, 256, 3, 1), (512, 7, 512, 3, 1))
on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


def layer(number: int, n: int = 128) -> ConvShape:
    c, h, k, f, stride = LAYERS[number - 1]
    return ConvShape(n=n, c=c, h=h, w=h, k=k, r=f, s=f, stride=stride)


def small(**changes: Any) -> ConvShape:
    return ConvShape(**{**dict(n=1, c=8, h=18, w=18, k=128, r=3, s=3), **changes})


def planned(shape: ConvShape, algorithm: str = "implicit_gemm", arch: str = "sm_90", **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm=algorithm, arch=arch, settings=values)


# ---- what is served

@pytest.mark.parametrize("algorithm, changes, says", [
    ("im2win", dict(layout="NHWC"), "layout NHWC"), ("im2win", dict(dtype="float16"), "float16"),
    ("implicit_gemm", dict(dtype="float16"), "float16")])
def test_layers_that_are_refused(algorithm, changes, says):
    spec = KernelSpec.of(small(**changes), algorithm=algorithm, arch=Arch(9, 0))
    assert says in ALGORITHMS[algorithm].supports(spec)


@pytest.mark.parametrize("values, says", [
    (dict(thread_m=7), "thread tile 7 x 8"), (dict(thread_m=16, thread_n=16, block_n=256), "16 x 16 sums"),
    (dict(block_m=16, block_n=16), "a block of 4 threads"), (dict(block_m=512, block_n=512), "a block of 4096 threads"),
    (dict(block_m=64, block_n=32), "warps of 32 x 64"),
    (dict(block_m=32, block_n=256, thread_n=16), "do not share out"),
    (dict(block_k=1), "do not share out the copies of 1 x 128"), (dict(stages=5), "stages = 5"),
    (dict(stages=1), "prefetch needs a second"), (dict(stages=2, prefetch="off"), "without prefetch there is one"),
    (dict(splits=10), "splits = 10 of 9 tiles"), (dict(min_blocks=99), "min_blocks = 99"),
    (dict(block_k=64, stages=3), "bytes of shared memory"),
    (dict(order="window", block_k=4), "tiles of 4 x 128 on 256 threads")])
def test_plan_values_that_do_not_go_together(values, says):
    with pytest.raises(UnsupportedSpec, match=re.escape(says)):
        planned(small(), "im2win", **{**TILE, **values})


def test_windows_of_x_do_not_lie_in_one_piece():
    with pytest.raises(UnsupportedSpec, match="order = window"):
        planned(small(), order="window")


def test_lists_that_shared_memory_does_not_hold():
    with pytest.raises(UnsupportedSpec, match="lists the places of 9000 products"):
        planned(small(c=1000), order="table")
    assert planned(small(c=1000)).options.order.value == "taps"


# ---- what is planned

@pytest.mark.parametrize("algorithm", BOTH)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("number", range(1, 13))
def test_each_part_can_be_left_out_alone(number, part, algorithm):
    whole, without = planned(layer(number), algorithm), planned(layer(number), algorithm, **{part: "off"})
    assert without.settings()[part] == "off"
    assert all(without.settings()[other] == whole.settings()[other] == "on" for other in PARTS if other != part)
    assert (without.options.stages == 1) == (part == "prefetch")
    assert (without.numbers.gemm.vector == 1) == (part != "prefetch")
    assert (without.options.thread_m * without.options.thread_n == 1) == (part == "micro_kernel")
    assert any("micro_kernel = off" in note for note in without.notes) == (part == "micro_kernel")
    assert plan_layer(layer(number), algorithm=algorithm, settings=without.settings()) is not None


@pytest.mark.parametrize("algorithm", BOTH)
def test_the_filter_is_filled_up_to_whole_tiles(algorithm):
    made = planned(small(c=6, k=70, groups=2), algorithm, **{**TILE, "block_m": 64, "block_n": 64, "order": "table"})
    assert made.numbers.gemm.k_tiles == 4 and made.numbers.gemm.m_tiles == 1      # 27 products of 35 filters
    assert made.program.preparation.buffer.bytes_each == 4 * 2 * 64 * 32


def test_workspaces_of_a_split_reduction():
    shape = small(n=3)
    made = planned(shape, **TILE, splits=3)
    assert made.program.workspace_bytes(shape) == 4 * 3 * 3 * 128 * 16 * 16
    assert [step.entry for step in made.program.steps] == [made.spec.name, "add_partial_sums"]
    windows = planned(shape, "im2win", **TILE, splits=3)
    tensor = 4 * 3 * 8 * 16 * (16 + 2) * 3
    assert windows.program.workspace_bytes(shape) == tensor + made.program.workspace_bytes(shape)


def test_a_lighter_plan_has_no_partial_sums():
    for algorithm in BOTH:
        split = planned(small(), algorithm, **TILE, splits=2)
        lighter = ALGORITHMS[algorithm].lighter(split.spec, split.options)
        assert lighter.splits == 1 and ALGORITHMS[algorithm].lighter(split.spec, lighter) is None


def test_taps_too_far_apart_for_a_list():
    far = small(c=3, h=70000, w=9, r=2, s=1, dilation=(33000, 1))
    with pytest.raises(UnsupportedSpec, match="lists taps at most 32767"):
        planned(far, order="table")
    assert {planned(far, algorithm).options.order.value for algorithm in BOTH} == {"taps"}


def test_from_64_images_on_the_batch_does_not_change_the_plan():
    for algorithm in BOTH:
        for number in range(1, 13):
            assert len({planned(layer(number, n), algorithm) for n in (64, 100, 128)}) == 1


def test_few_tiles_in_nchw_have_their_sums_split():
    """832 -> 160 channels on 7x7: 13 tiles of pixels at a batch of 16, a chip of 132 multiprocessors."""
    few = ConvShape(n=16, c=832, h=7, w=7, k=160, r=1, s=1)
    assert planned(few, "implicit_gemm").options.splits > 1
    assert planned(replace(few, n=1024, h=28, w=28), "implicit_gemm").options.splits == 1
    units = ALGORITHMS["implicit_gemm"]
    whole = planned(few, "implicit_gemm", splits=1)
    assert units.slots(whole, few) > 2 * units.slots(planned(few, "implicit_gemm"), few)


@pytest.mark.parametrize("sizes, tile", [
    (dict(n=32, c=128, h=27, w=27, k=32), (32, 32)), (dict(n=32, c=20, h=1, w=1, k=480), (32, 32)),
    (dict(n=256, c=128, h=27, w=27, k=32), (32, 128)), (dict(n=32, c=256, h=27, w=27, k=32), (32, 128)),
    (dict(n=32, c=288, h=35, w=35, k=48), (48, 64)), (dict(n=32, c=288, h=35, w=35, k=49), (64, 64))])
def test_tiles_of_few_blocks_and_of_few_filters(sizes, tile):
    """An H200, us: 9.4 for 16.6, 2.5 for 3.9; 38.4 for 43.8 by tiles of 64 filters."""
    made = planned(ConvShape(r=1, s=1, **sizes), "implicit_gemm").options
    assert (made.block_m, made.block_n) == tile


# ---- what is executed

@pytest.mark.thin(9)
@on_cpu_device
@pytest.mark.parametrize("algorithm, order", [("implicit_gemm", "taps"), ("implicit_gemm", "table"),
                                              ("im2win", "window"), ("im2win", "table")])
@pytest.mark.parametrize("splits", [1, 2])
def test_loads_and_banks_are_as_planned(algorithm, order, splits):
    """Copies as the plan counts them; of shared accesses only the copies of filters, 512 bytes a warp, take more than
    one turn of the banks."""
    shape = small(n=2)
    made = planned(shape, algorithm, **TILE, order=order, splits=splits)
    found = measure(made, shape)
    blocks = -(-2 * 16 * 16 // 128)
    warps = 8 * blocks
    source = found.buffers["windows" if algorithm == "im2win" else "x"]
    copies = source.load_requests + found.buffers["filter"].load_requests
    assert copies == made.cost.warp_loads * warps
    further = found.shared_wavefronts - found.shared_requests
    lists = 4 if order != "taps" and algorithm == "im2win" else 0      # 8-byte entries are written in two turns
    assert further <= 3 * found.buffers["filter"].load_requests + lists * warps * splits


@on_cpu_device
@pytest.mark.parametrize("algorithm", BOTH)
def test_infinities_stay_where_they_are(algorithm):
    """What fills tiles up is zero, not an element of x: zero times infinity would be felt."""
    shape = small(c=3, k=5, h=9, w=9, padding=1)
    kernel = checks.cpu_kernel(planned(shape, algorithm))
    x, w, _ = reference.operands(shape, settings.generator(3))
    x[0, 0, 0, 0] = np.inf
    y = kernel(x, w)
    touched = np.zeros((9, 9), bool)
    touched[:2, :2] = True
    assert np.isfinite(y[0, :, ~touched]).all() and np.isinf(y[0, :, touched]).all()


@pytest.mark.thin(3)
@on_cpu_device
@pytest.mark.parametrize("algorithm, order", [("implicit_gemm", "taps"), ("implicit_gemm", "table"),
                                              ("im2win", "window")])
def test_offsets_of_64_bits(algorithm, order):
    """A plan for a batch whose elements an int does not count, executed on a few images."""
    made = planned(small(n=10**6, c=8, padding=1), algorithm, order=order)
    assert made.spec.index_bits == 64 and "using index_t = long long" in render(made).text
    shape = small(n=2, c=8, padding=1)
    checks.check_kernel(checks.cpu_kernel(made, Mode.CHECK), shape)


@on_cpu_device
@pytest.mark.parametrize("algorithm", BOTH)
def test_an_older_architecture_copies_through_registers(algorithm):
    made = planned(small(c=3, k=5, padding=1), algorithm, arch="sm_75")
    assert "cp.async" not in render(made).text
    checks.check_checked(made, small(c=3, k=5, padding=1))


# ---- what a compiler makes of it

@pytest.mark.long
@pytest.mark.skipif(not compilers.available()[compilers.CompilerKind.NVRTC], reason="NVRTC is not installed")
def test_defaults_do_not_spill():
    def report(item: tuple[str, ConvShape, str]) -> str | None:
        algorithm, shape, arch = item
        made = plan_layer(shape, algorithm=algorithm, arch=arch, epilogue=(BIAS, RELU))
        entries = compilers.compile_source(render(made).text, arch=arch, kind=compilers.CompilerKind.NVRTC).entries
        spilled = [e for e in entries if e.spill_stores or e.spill_loads or e.stack_bytes]
        return f"{made.spec}, {spilled}: {made.settings()}" if spilled else None

    shapes = [layer(number) for number in (1, 3, 4, 5, 7, 8, 12)]
    shapes += [ConvShape(n=8, c=c, h=56, w=56, k=k, r=3, s=3, padding=1) for c, k in ((64, 32), (60, 16), (3, 200))]
    nhwc = [replace(shape, layout="NHWC") for shape in shapes]
    nhwc += [ConvShape(n=8, c=64, h=56, w=56, k=k, r=1, s=1, layout="NHWC") for k in (64, 96, 128)]
    archs = ("sm_80", "sm_90", "sm_100")
    items = [(algorithm, shape, arch) for algorithm in BOTH for i, shape in enumerate(shapes)
             for arch in (archs if settings.whole else (archs[i % 3],))]
    items += [("implicit_gemm", shape, arch) for i, shape in enumerate(nhwc)
              for arch in (archs if settings.whole else (archs[i % 3],))]
    with ThreadPoolExecutor(2) as pool:
        wrong = [text for text in pool.map(report, items) if text]
    assert not wrong, "\n".join(wrong)


def main_loop(text: str, entry: str) -> list[str]:
    """The instructions of the innermost loop with most FFMAs of an entry, from its SASS."""
    text = re.split(r"Function : |\.text\.", text[re.search(rf"(Function : |\.text\.){entry}\b", text).end():])[0]
    code = [(int(at, 16), what) for at, what in re.findall(r"/\*([0-9a-f]{4,})\*/\s+([^;]+);", text)]
    loops = []
    for at, what in code:
        target = re.search(r"BRA.*?(0x[0-9a-f]+)", what)
        if target and int(target[1], 16) < at:
            loops.append([other for place, other in code if int(target[1], 16) <= place <= at])
    return max(loops, key=lambda loop: (sum("FFMA" in what for what in loop), -len(loop)))


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.skipif(sass.available() is None, reason=f"no disassembler; {sass.WAYS}")
@pytest.mark.parametrize("algorithm, number, layout", [
    ("implicit_gemm", 4, "NCHW"), ("implicit_gemm", 5, "NCHW"), ("implicit_gemm", 8, "NCHW"), ("im2win", 8, "NCHW"),
    ("implicit_gemm", 4, "NHWC"), ("implicit_gemm", 8, "NHWC")])
def test_most_of_the_inner_loop_multiplies(algorithm, number, layout):
    made = planned(replace(layer(number), layout=layout), algorithm)
    loop = main_loop(sass.disassemble(build(made).compiled.cubin), made.spec.name)
    gemm = made.numbers.gemm
    assert sum("LDGSTS" in what for what in loop) == gemm.rows + gemm.a_rounds      # the copies are in the loop
    assert sum("FFMA" in what for what in loop) >= 0.85 * len(loop)
