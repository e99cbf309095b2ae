"""im2win_basic and im2col: sizes against the document's table, plans and refusals, counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import warpconv
from tests import checks, settings
from tests.codegen.test_limits import LAYERS
from warpconv.codegen.algorithms.im2col import plan as im2col
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.parts import windows as im2win_tensor
from warpconv.codegen.plan import LibraryCall, Repeat
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import LARGEST_SIZE, ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.accuracy.measure import measure, reduced
from warpconv.runtime.call import conv
from warpconv.runtime.layers import read_layers

# MiB of float32 for the twelve layers at batch 128: the im2win tensor, the columns of the batch, those of one image
MIB = {"conv1": (201.2, 536.2, 4.19), "conv2": (208.4, 555.8, 4.34), "conv3": (258.4, 884.4, 6.91),
       "conv4": (2670.5, 9096.4, 71.07), "conv5": (112.5, 468.8, 3.66), "conv6": (45.0, 112.5, 0.88),
       "conv7": (218.5, 649.7, 5.08), "conv8": (1155.0, 3403.1, 26.59), "conv9": (283.5, 820.1, 6.41),
       "conv10": (136.5, 380.2, 2.97), "conv11": (63.0, 162.0, 1.27), "conv12": (26.2, 56.2, 0.44)}
TWELVE = {layer.name: layer.shape for layer in read_layers("twelve_layers")}
SMALL = ConvShape(n=3, c=4, h=11, w=13, k=6, r=3, s=3, padding=1, groups=2)
needs_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


@pytest.fixture(autouse=True)
def forgotten():
    yield
    conv.clear()


def scratch(shape: ConvShape) -> int:
    plan = plan_layer(shape, algorithm="im2col")
    return next(w for w in plan.program.workspaces if w.name == im2col.SCRATCH).bytes_of(shape)


# ---- sizes

@pytest.mark.parametrize("name", MIB)
def test_the_twelve_layers_take_what_the_document_says(name):
    shape, (windows, batch, image) = TWELVE[name], MIB[name]
    plan = plan_layer(shape, algorithm="im2win_basic")
    unread = shape.w - ((shape.q - 1) * shape.stride[1] + shape.s)      # columns that no window touches: not stored
    assert unread == (name == "conv4")
    mib = plan.program.workspace_bytes(shape) / 2**20
    assert mib * shape.w / (shape.w - unread) == pytest.approx(windows, abs=0.051)
    for batched, wanted in (("whole", batch), ("image", image)):
        made = plan_layer(shape, algorithm="im2col", settings={"batch": batched})
        mib = (made.program.workspace_bytes(shape) - scratch(shape)) / 2**20
        assert mib == pytest.approx(wanted, abs=0.051 if batched == "whole" else 0.0051)


def test_the_documents_example():
    """36 elements of the im2win tensor where im2col has 48: 2x2 filters over three channels of 3 x 3."""
    shape = ConvShape(c=3, h=3, w=3, k=1, r=2, s=2)
    spec = KernelSpec.of(shape, algorithm="im2win_basic", arch=plan_layer(shape).spec.arch)
    assert im2win_tensor.numbers(spec).elements(shape) == 36
    assert im2col._columns(spec, im2col.Batch.IMAGE).bytes_of(shape) == 4 * 48


def test_the_tensor_in_numbers_is_where_the_windows_lie():
    """T as the planner describes it, made by NumPy, holds every window's taps where the numbers say."""
    shape = ConvShape(n=2, c=3, h=9, w=14, k=1, r=3, s=2, stride=(2, 3), padding=((1, 0), (2, 1)), dilation=(2, 3))
    numbers = im2win_tensor.numbers(plan_layer(shape, algorithm="im2win_basic").spec)
    x = settings.generator(5).standard_normal(shape.input_shape)
    padded = np.pad(x, ((0, 0), (0, 0), *shape.padding))
    row = numbers.row(shape)
    for p in range(shape.p):
        tensor = np.stack([padded[:, :, p * 2 + (i % 3) * 2, i // 3] for i in range(row)], axis=-1)
        for q in range(shape.q):
            window = tensor[:, :, q * numbers.window_step:][:, :, :numbers.window]
            assert window.shape[-1] == numbers.window
            for u in range(3):
                for v in range(2):
                    tap = window[:, :, v * numbers.tap_step + u]
                    assert np.array_equal(tap, padded[:, :, 2 * p + 2 * u, 3 * q + 3 * v])


def test_a_row_of_the_tensor_stays_in_an_int():
    wide = ConvShape(c=1, h=3, w=LARGEST_SIZE // 4, k=1, r=3, s=3)
    plan = plan_layer(wide, algorithm="im2win_basic")
    numbers = plan.numbers.tensor
    most = plan.program.argument("Q").at_most
    assert numbers.row_each * most + numbers.row_add <= LARGEST_SIZE < numbers.row_each * (most + 1) + numbers.row_add
    with pytest.raises(UnsupportedSpec, match=f"at most {most}"):
        plan_layer(replace(wide, w=LARGEST_SIZE // 3 + 3), algorithm="im2win_basic")
    assert plan_layer(replace(wide, r=1), algorithm="im2win_basic").program.argument("Q").at_most is None


@pytest.mark.parametrize("name", LAYERS)
def test_no_step_of_a_loop_overflows(name):
    """What an int counts, and a step of its loop beyond it, stays below 2^31: places in a row, rows, planes, images."""
    shape, most = LAYERS[name], 2**31 - 1
    windows = plan_layer(shape, algorithm="im2win_basic").program
    (x, y, z), (pixels, _, images) = (launch.grid_of(shape) for launch in windows.launches[1:])
    assert x * 32 <= most and shape.p + y * 8 <= most and shape.n * shape.c + z * im2win_tensor.PLANES <= most
    assert pixels * 32 <= most and shape.n + images <= most
    plan = plan_layer(shape, algorithm="im2col", settings={"batch": "whole"}, epilogue=("relu",))
    for launch in plan.program.launches:
        x, y, z = launch.grid_of(shape)
        assert x * launch.block[0] <= most
        if launch.entry == im2col.FINISH:
            assert shape.n * shape.k + y * launch.block[1] <= most
        else:
            assert shape.c + y * plan.numbers.channels_each <= most and shape.n + z <= most


def test_columns_of_2_31_elements_and_more_are_addressed_in_64_bits():
    shape = TWELVE["conv4"]
    for batch in im2col.Batch:
        plan = plan_layer(shape, algorithm="im2col", settings={"batch": batch})
        assert plan.spec.index_bits == 32
        elements = shape.n * shape.reduction * shape.p * shape.q
        assert elements > 2**31 and "const long long pixels = (long long)P * Q;" in warpconv.render(plan).text


# ---- plans

def test_what_does_not_overlap_is_said():
    def notes(**layer):
        return " ".join(plan_layer(ConvShape(c=2, h=40, w=40, k=2, **layer), algorithm="im2win_basic").notes)
    assert "share" not in notes(r=3, s=3) and "share no column" in notes(r=3, s=2, stride=(1, 2))
    assert "no two rows" in notes(r=3, s=5, stride=(3, 2)) and "share no column" not in notes(r=3, s=5, stride=(3, 2))


def test_a_layer_that_is_a_matrix_already_is_not_lowered():
    shape = ConvShape(n=2, c=8, h=9, w=9, k=4, r=1, s=1)
    plan = plan_layer(shape, algorithm="im2col")
    assert plan.program.entries == () and plan.program.workspace_bytes(shape) == scratch(shape)
    assert plan.program.library_calls == (LibraryCall(operation="gemm_batch", operands=("w", "x", "y", "scratch")),)
    with pytest.raises(UnsupportedSpec, match="matrix as it is"):
        plan_layer(shape, algorithm="im2col", settings={"batch": "image"})
    for changes in (dict(stride=2), dict(padding=1), dict(r=3)):
        assert plan_layer(replace(shape, **changes), algorithm="im2col").program.entries == \
            (f"im2col_{changes.get('r', 1)}x1",)


def test_steps_of_both_batches():
    image, whole = (plan_layer(SMALL, algorithm="im2col", settings={"batch": b}, epilogue=("relu",)).program
                    for b in ("image", "whole"))
    assert [type(step).__name__ for step in whole.steps] == ["Launch", "LibraryCall", "Launch"]
    assert isinstance(image.steps[0], Repeat) and len(image.steps) == 2
    assert image.entries == whole.entries == ("im2col_3x3", "im2col_finish")
    assert plan_layer(SMALL, algorithm="im2col").program.entries == ("im2col_3x3",)


@pytest.mark.parametrize("algorithm, layer, word", [
    ("im2col", dict(dtype="float16"), "float16"), ("im2col", dict(layout="NHWC"), "NHWC"),
    ("im2win_basic", dict(layout="NHWC"), "NHWC"), ("im2win_basic", dict(dtype="int8"), "int8")])
def test_refusals_in_words(algorithm, layer, word):
    with pytest.raises(UnsupportedSpec, match=f"{word} is not served"):
        plan_layer(replace(SMALL, **layer), algorithm=algorithm)


def test_estimates_follow_the_work_and_document_mapping_costs_more():
    shape = TWELVE["conv9"]
    basic = {mapping: plan_layer(shape, algorithm="im2win_basic", settings={"mapping": mapping})
             for mapping in ("document", "coalesced")}
    cost = {mapping: ALGORITHMS["im2win_basic"].estimate(plan, shape) for mapping, plan in basic.items()}
    assert cost["coalesced"] < cost["document"]
    row = ALGORITHMS["im2col"]
    fma = shape.macs / 32
    assert fma < row.estimate(plan_layer(shape, algorithm="im2col"), shape) < 3 * fma


# ---- counts

@needs_cpu
def test_the_transform_stores_each_element_once_in_full_lines():
    shape = ConvShape(n=2, c=5, h=12, w=64, k=1, r=3, s=3, padding=(0, 1))
    plan = plan_layer(shape, algorithm="im2win_basic")
    transform = checks.check_checked(plan, shape)[1]        # behind that of the filter
    elements = plan.numbers.tensor.elements(shape)
    assert elements * 4 == plan.program.workspace_bytes(shape)
    stores = transform.buffers["windows"]
    assert stores.store_bytes == elements * 4
    assert stores.store_requests == shape.n * shape.c * shape.p * -(-plan.numbers.tensor.row(shape) // 32)


@needs_cpu
def test_a_program_of_several_steps_is_measured_whole_and_reduced_with_all_its_steps():
    shape = ConvShape(n=4, c=16, h=20, w=20, k=48, r=3, s=3, padding=1)
    for algorithm in ("im2col", "im2win_basic"):
        plan = plan_layer(shape, algorithm=algorithm, epilogue=("bias",))
        small = reduced(plan)
        assert len(small.program.steps) == len(plan.program.steps) and small.spec.c < shape.c
        assert measure(small, small.spec.example_shape(h=20, w=20)).accuracy.within
