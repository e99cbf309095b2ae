"""Arrays with gaps between rows, planes and images: read and written where they lie, copied where that is quicker."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import warpconv
from tests import checks, pitches, reference, settings
from warpconv import ArgumentError, ConvShape, ShapeError, UnsupportedSpec
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import KernelFault
from warpconv.codegen.pitch import Pitch, together
from warpconv.codegen.plan import Role
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.serialise import canonical, decode, encode
from warpconv.codegen.spec import KernelSpec, index_bits
from warpconv.runtime import arrays
from warpconv.runtime.arrays import factories as array_factories
from warpconv.runtime.call import conv, pitch
from warpconv.runtime.devices.cpu import Mode
from warpconv.runtime.devices.cpu.memory import stage
from warpconv.runtime.devices.cpu.report import Buffer

needs_compiler = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))

PLANE = ConvShape(c=1, h=96, w=128, k=1, r=3, s=3, padding=1)
SERVED = {"direct", "wide", "pixels"}


@pytest.fixture
def copies(monkeypatch):
    """What is copied to become contiguous."""
    made = []
    real = array_factories.as_contiguous

    def counted(value, view, argument, order=None):
        if not view.contiguous:
            made.append(argument)
        return real(value, view, argument, order)

    monkeypatch.setattr(arrays, "as_contiguous", counted)
    return made


def crop(shape, offset, more, seed=0):
    """An image of the shape's sizes inside of a larger one, at ``offset`` = (row, column), with NaN or other numbers
    around it that no result may have; and the filter."""
    x, w, _ = reference.operands(shape, settings.generator(seed))
    rows, columns = ((1, 2) if shape.layout is Layout.NHWC else (2, 3))
    sizes = [extent + (more[axis - rows] if axis in (rows, columns) else 0) for axis, extent in enumerate(x.shape)]
    room = pitches._poison(x.dtype, int(np.prod(sizes))).reshape(sizes)
    window = [slice(None)] * 4
    for axis, start in zip((rows, columns), offset):
        window[axis] = slice(start, start + x.shape[axis])
    room[tuple(window)] = x
    return room[tuple(window)], w


def view_of(array):
    return arrays.view(array, "input")


# ---- the layer, the plan and its text

def test_a_layer_without_gaps_is_stored_as_before():
    spec = KernelSpec.of(PLANE, algorithm="direct", arch=plan_layer(PLANE).spec.arch)
    assert not spec.pitched and "pitch" not in canonical(PLANE) + canonical(spec)
    pitched = PLANE.with_distances()
    assert pitched.pitched and pitched.without_gaps() == PLANE and PLANE.without_gaps() is PLANE
    for layer in (pitched, replace(PLANE, y_pitch=Pitch(row=130, plane=0, image=0, alignment=4))):
        assert decode(ConvShape, encode(layer)) == layer
        assert KernelSpec.of(layer, algorithm="direct", arch=spec.arch).pitched


def test_distances_of_layers_without_gaps():
    shape = ConvShape(n=2, c=3, h=5, w=7, k=6, r=3, s=3, groups=3)
    assert shape.x_distances == Pitch(row=7, plane=35, image=105)
    assert shape.y_distances == Pitch(row=5, plane=15, image=90)
    assert replace(shape, layout="NHWC").x_distances == Pitch(row=21, plane=1, image=105)


@pytest.mark.parametrize("fields, argument", [(dict(row=-1), "row"), (dict(plane=1.5), "plane"),
                                              (dict(alignment=3), "alignment"), (dict(alignment=32), "alignment")])
def test_what_is_no_pitch_is_refused(fields, argument):
    with pytest.raises(ArgumentError) as caught:
        Pitch(**{**dict(row=8, plane=64, image=64), **fields})
    assert caught.value.argument == argument and caught.value.hint


def test_rows_too_far_apart_for_an_int_are_refused():
    with pytest.raises(ShapeError, match="too far apart") as caught:
        replace(PLANE, y_pitch=Pitch(row=8, plane=2**31, image=0))
    assert caught.value.argument == "y_pitch"


def test_indices_are_as_wide_as_rows_lie_apart():
    apart = replace(PLANE, x_pitch=Pitch(row=2**24, plane=0, image=0))
    assert index_bits(PLANE) == 32 and index_bits(apart) == 32
    assert index_bits(replace(apart, h=200)) == 64
    assert index_bits(replace(apart, padding=(40, 1))) == 64      # rows of the padding have addresses, too


def test_three_algorithms_serve_arrays_with_gaps_and_the_others_say_so():
    for layer in (PLANE, replace(PLANE, dtype="uint8"), replace(PLANE, c=8, k=8, groups=8, layout="NHWC")):
        answers = explain(layer.with_distances())
        assert answers[0].algorithm in SERVED
        for answer in answers:
            assert not answer.supported or answer.algorithm in SERVED
    reasons = {answer.algorithm: answer.reason for answer in explain(PLANE.with_distances())}
    without = {answer.algorithm for answer in explain(PLANE) if answer.supported}
    for name in without - SERVED:
        assert "gaps" in reasons[name], name
    assert set(ALGORITHMS) >= SERVED


@pytest.mark.parametrize("layer, algorithm", [(PLANE, "wide"), (replace(PLANE, dtype="uint8"), "pixels"),
                                              (replace(PLANE, dtype="float16"), "wide")])
def test_plans_load_as_wide_as_rows_and_addresses_allow(layer, algorithm):
    def planned(**pitch_of):
        given = Pitch(**{**dict(row=256, plane=0, image=0), **pitch_of})
        return plan_layer(replace(layer, x_pitch=given, y_pitch=given), algorithm=algorithm)

    dense, size = plan_layer(layer, algorithm=algorithm).options, layer.dtype.itemsize
    made = planned()
    assert (made.options.vector, made.options.store_vector) == (dense.vector, dense.store_vector)
    row = made.program.argument("X_ROW")
    assert row.multiple_of == dense.vector and "X_ROW" in made.program.demands
    for narrow in (planned(alignment=size), planned(row=255)):
        assert narrow.options.vector == narrow.options.store_vector == 1
    apart = replace(layer, x_pitch=Pitch(row=255, plane=0, image=0))
    assert "X_ROW" in made.program.refusal(apart)
    assert made.program.refusal(replace(layer, x_pitch=Pitch(row=512, plane=0, image=0))) is None
    words = planned(alignment=8, row=260).options
    assert words.vector == (4 if algorithm == "pixels" else 8 // size)


def test_the_vector_of_gaps_divides_all_that_a_row_begins_at():
    assert together(None, DType.FLOAT32, Layout.NCHW) == 0
    assert together(Pitch(row=0, plane=0, image=0), DType.FLOAT16, Layout.NCHW) == 8
    assert together(Pitch(row=12, plane=24, image=10), DType.UINT8, Layout.NCHW) == 2
    assert together(Pitch(row=12, plane=1, image=24), DType.UINT8, Layout.NHWC) == 4
    assert together(Pitch(row=12, plane=24, image=48, alignment=4), DType.FLOAT32, Layout.NCHW) == 1


def test_distances_are_arguments_of_the_text_and_of_its_launch():
    for layer in (PLANE, replace(PLANE, c=4, k=4, groups=4, layout="NHWC", dtype="uint8")):
        made = plan_layer(layer.with_distances(), algorithm="direct")
        names = [a.name for a in made.program.arguments if a.role is Role.SIZE]
        planes = ["X_PLANE"] * (layer.layout is Layout.NCHW)
        assert names[5:] == ["X_ROW", *planes, "X_IMAGE", "Y_ROW", *(name.replace("X", "Y") for name in planes),
                             "Y_IMAGE"]
        assert list(made.program.launches[0].arguments)[-len(names):] == names
        assert "--pitched" in "".join(warpconv.render(made).text.splitlines()[:8])


def test_measured_choices_are_those_of_the_layer_without_gaps():
    class Table:
        asked = []

        def best(self, shape, arch):
            self.asked.append(shape)
            return "wide", {"sub_block_rows": 20}

        def origin(self, shape, arch):
            return "measured"

    made = plan_layer(PLANE.with_distances(), tuning=Table())
    assert Table.asked == [PLANE] and made.options.sub_block_rows == 20 and made.spec.pitched
    with pytest.raises(UnsupportedSpec, match="gaps"):
        warpconv.tune(PLANE.with_distances(), device="cpu", budget=1)


# ---- views

@pytest.mark.parametrize("make, layout, expected", [
    (lambda a: a, "NCHW", None), (lambda a: a[:, :, 2:7, 4:9], "NCHW", (16, 160, 640)),
    (lambda a: a[:1, 1:2, 2:7, 4:9], "NCHW", (16, 0, 0)), (lambda a: a[:, ::2], "NCHW", (16, 320, 640)),
    (lambda a: a[:, :, ::3], "NCHW", (48, 160, 640)), (lambda a: a[..., ::2], "NCHW", None),
    (lambda a: a[:, :, ::-1], "NCHW", None), (lambda a: a[:, :, 3:4, :5], "NCHW", (0, 160, 640)),
    (lambda a: np.broadcast_to(a[:, :1], a.shape), "NCHW", (16, 0, 640)),
    (lambda a: a.transpose(0, 1, 3, 2), "NCHW", None), (lambda a: a[..., :5], "NHWC", None),
    (lambda a: a[:, :3, 2:6], "NHWC", (160, 1, 640)), (lambda a: a[:, ::2], "NHWC", (320, 1, 640)),
    (lambda a: a[:, :, ::2], "NHWC", None)])
def test_which_views_need_no_copy(make, layout, expected):
    view = view_of(make(np.zeros((2, 4, 10, 16), np.float32)))
    found = pitch.input_pitch(view, Layout.parse(layout))
    assert (found and (found.row, found.plane, found.image)) == expected


def test_the_alignment_of_a_view_is_its_addresses():
    room = np.zeros(64 + 40 * 40, np.uint8)
    start = -room.ctypes.data % 16
    for offset, alignment in ((0, 16), (1, 1), (6, 2), (20, 4), (8, 8)):
        x = room[start + offset:][:1600].reshape(1, 1, 40, 40)[..., :30]
        assert pitch.input_pitch(view_of(x), Layout.NCHW).alignment == alignment


def test_outputs_whose_elements_meet_are_not_written_with_gaps():
    room = np.zeros(1000, np.float32)
    good = np.lib.stride_tricks.as_strided(room, (1, 2, 5, 6), (0, 400, 32, 4))
    meeting = np.lib.stride_tricks.as_strided(room, (1, 2, 5, 6), (0, 8, 32, 4))
    assert pitch.output_pitch(view_of(good), None, Layout.NCHW) is not None
    assert pitch.output_pitch(view_of(meeting), None, Layout.NCHW) is None
    other = np.zeros((1, 2, 5, 6), np.float32)
    assert pitch.output_pitch(view_of(good), view_of(other), Layout.NCHW) is None
    assert pitch.output_pitch(view_of(good), view_of(good), Layout.NCHW) is not None


# ---- calls

@pytest.mark.thin(4)
@needs_compiler
@pytest.mark.parametrize("fields, offset, more", [
    (dict(), (10, 16), (20, 32)), (dict(), (3, 5), (9, 31)), (dict(padding_mode="reflect"), (1, 3), (4, 17)),
    (dict(dtype="uint8"), (5, 16), (8, 48)), (dict(dtype="uint8", padding_mode="replicate"), (5, 7), (8, 21)),
    (dict(dtype="float16", n=2, c=3, k=3, groups=3), (2, 8), (3, 24)),
    (dict(dtype="uint8", c=3, k=3, groups=3, layout="NHWC"), (4, 5), (7, 9)),
    (dict(c=5, k=5, groups=5, n=2, layout="NHWC"), (1, 2), (3, 4))])
def test_crops_are_read_where_they_are(fields, offset, more, copies):
    shape = replace(PLANE, **fields)
    x, w = crop(shape, offset, more)
    options = dict(padding=1, padding_mode=shape.padding_mode.value, groups=shape.groups, layout=shape.layout.value)
    y = warpconv.conv2d(x, w, device="cpu", **options)
    reference.expected(np.ascontiguousarray(x), w, shape).check(y)
    assert copies == [] and y.flags.c_contiguous


@needs_compiler
def test_a_crop_of_a_channels_last_image_keeps_its_order(copies):
    shape = ConvShape(n=2, c=6, h=20, w=24, k=6, r=3, s=3, groups=6, padding=1)
    x, w, _ = reference.operands(shape, settings.generator(4))
    room = np.full((2, 30, 40, 6), np.nan, np.float32)
    room[:, 3:23, 9:33] = x.transpose(0, 2, 3, 1)
    shown = room[:, 3:23, 9:33].transpose(0, 3, 1, 2)
    y = warpconv.conv2d(shown, w, groups=6, padding=1, device="cpu")
    reference.expected(x, w, shape).check(np.ascontiguousarray(y))
    assert copies == [] and y.transpose(0, 2, 3, 1).flags.c_contiguous
    y = warpconv.conv2d(shown, w, groups=6, padding=1, device="cpu", algorithm="reuse")     # which is for NCHW
    reference.expected(x, w, shape).check(np.ascontiguousarray(y))
    assert copies == ["input"]


@needs_compiler
@pytest.mark.parametrize("residual", [False, True])
def test_outputs_with_gaps_are_written_and_nothing_between(residual, copies):
    shape = replace(PLANE, n=2, c=2, k=2, groups=2)
    x, w, _ = reference.operands(shape, settings.generator(7))
    room = np.full((2, 2, 100, 140), np.nan, np.float32)
    out = room[:, :, 2:98, 4:132]
    added = reference.residual(shape, settings.generator(8)) if residual else None
    if residual:
        out[...] = added
    before = pitches.between(out.view())
    got = warpconv.conv2d(x, w, groups=2, padding=1, device="cpu", out=out, residual=out if residual else None)
    steps = (warpconv.Epilogue.RESIDUAL,) if residual else ()
    reference.expected(x, w, shape, residual=added, epilogue=steps).check(np.ascontiguousarray(out))
    assert got is out and copies == [] and np.array_equal(before, pitches.between(out.view()))


@needs_compiler
def test_an_output_beside_a_residual_that_lies_otherwise_is_copied_into():
    x, w, _ = reference.operands(PLANE, settings.generator(7))
    room = np.zeros((1, 1, 100, 140), np.float32)
    out, residual = room[:, :, 2:98, 4:132], np.ones_like(x)
    assert warpconv.conv2d(x, w, padding=1, device="cpu", out=out, residual=residual) is out
    reference.expected(x, w, PLANE, residual=residual, epilogue=(warpconv.Epilogue.RESIDUAL,)).check(
        np.ascontiguousarray(out))
    out[...] = 0
    assert not room.any()


@needs_compiler
def test_a_kernel_for_arrays_with_gaps_takes_dense_ones_and_copies_what_goes_backwards(copies):
    kernel = warpconv.specialize(PLANE.with_distances(), device="cpu", algorithm="wide", settings={"vector": 1})
    x, w = crop(PLANE, (1, 1), (3, 3))
    wanted = reference.expected(np.ascontiguousarray(x), w, PLANE)
    for given, copied in ((x, []), (np.ascontiguousarray(x), []), (x[:, :, ::-1].copy()[:, :, ::-1], ["input"])):
        copies.clear()
        wanted.check(kernel(given, w))
        assert copies == copied


@needs_compiler
def test_a_kernel_refuses_rows_that_its_vectors_do_not_divide():
    kernel = warpconv.specialize(PLANE.with_distances(), device="cpu", algorithm="wide")
    assert kernel.plan.options.vector == 4
    x, w = crop(PLANE, (0, 0), (0, 3))
    with pytest.raises(ShapeError, match="X_ROW") as caught:
        kernel(x, w)
    assert "specialize" in caught.value.hint


@needs_compiler
def test_where_products_decide_the_input_is_copied(copies):
    shape = ConvShape(n=1, c=64, h=28, w=28, k=64, r=3, s=3, padding=1)
    assert plan_layer(shape).spec.algorithm not in SERVED
    x, w = crop(shape, (1, 1), (2, 2))
    reference.expected(np.ascontiguousarray(x), w, shape).check(warpconv.conv2d(x, w, padding=1, device="cpu"))
    assert copies == ["input"]


def test_the_planners_are_asked_once(monkeypatch):
    asked = []
    pitch.clear()

    def plan(layer):
        asked.append(layer.pitched)
        return plan_layer(layer)

    for _ in range(2):
        assert pitch.quicker("key", PLANE.with_distances(), PLANE, plan)
    assert asked == [True]      # an output with gaps cannot be had otherwise
    only = replace(PLANE.with_distances(), y_pitch=None)
    assert pitch.quicker("other", only, PLANE, plan) and asked == [True, True, False]

    def refuses(layer):
        raise UnsupportedSpec(None, "no")

    assert not pitch.quicker("none", only, PLANE, refuses)
    conv.clear()
    assert not pitch._quicker


@needs_compiler
def test_the_cpu_device_refuses_a_write_between_the_rows_of_an_output():
    memory = np.zeros(20, np.float32)
    own = np.zeros(20, bool)
    own[[0, 1, 2, 10, 11, 12]] = True
    buffer = Buffer("y", memory, writable=True, must_be_written=True, initialised=False, elements=own)
    for written, message in (([0, 1, 2, 10, 11, 12], None), ([0, 1, 2, 10, 11], "1 of 20 elements"),
                             ([0, 1, 2, 3, 10, 11, 12], "1 elements in the gaps")):
        with stage([buffer], Mode.CHECK) as (staged,):
            staged._writers[written] = 1
            if message is None:
                staged.finish("entry")
                continue
            with pytest.raises(KernelFault, match=message):
                staged.finish("entry")


def test_a_graph_records_gaps_that_the_kernel_takes_and_no_copy():
    from warpconv.runtime.devices.cuda.graph import Graph
    apart = arrays.ArrayView(arrays.ArrayKind.TORCH, 4096, (1, 1, 9, 8), (320, 320, 32, 1), DType.FLOAT32, 0, None,
                             False)
    found = pitch.input_pitch(apart, Layout.NCHW)
    Graph().check(None, {"input": apart, "out": apart, "residual": apart}, (found, found))
    for name, given in (("input", (None, found)), ("out", (found, None)), ("weight", (found, found))):
        with pytest.raises(ArgumentError, match="would not repeat the copy") as caught:
            Graph().check(None, {**dict.fromkeys(("input", "out"), apart), name: apart}, given)
        assert caught.value.argument == name
