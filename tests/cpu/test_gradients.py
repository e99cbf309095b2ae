"""Gradients on the CPU device: drawn layers beside float64, finite differences, the same bits from run to run."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
from tests import checks, gradients, settings
from warpconv.codegen.border import Border
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError, UnsupportedSpec
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Operation
from warpconv.runtime import arrays, env
from warpconv.runtime.call import kernels
from warpconv.runtime.call.checks import Call
from warpconv.runtime.devices.cpu import Mode, backend

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))

OPERATIONS = ("dx", "dw", "db")
NAMES = {"dx": "data_gradient", "dw": "filter_gradient", "db": "bias_gradient"}
# a layer for each form of the texts: what is fixed of a drawn one. Of 16 bits in NHWC, eights of channels go to the
# tensor cores, others to lanes that have pairs.
DEPTHWISE = {"c": 40, "k": 40, "groups": 40, "stride": (1, 1), "dilation": (1, 1), "padding_mode": Border.ZEROS}
PAIRS = {**DEPTHWISE, "c": 42, "k": 42, "groups": 42, "layout": Layout.NHWC}
EIGHTS = {**DEPTHWISE, "layout": Layout.NHWC, "dtype": DType.FLOAT16}
DENSE = {"c": 40, "k": 72, "groups": 1, "r": 3, "s": 2, "h": 11, "w": 13, "padding": ((1, 0), (1, 1)),
         "dilation": (1, 1), "padding_mode": Border.ZEROS, "dtype": DType.FLOAT16, "layout": Layout.NHWC}
FORMS = {
    "vectors of four": {**DEPTHWISE, "w": 16, "s": 5, "padding": ((1, 1), (2, 2)), "layout": Layout.NCHW},
    "vectors of two": {**DEPTHWISE, "w": 14, "s": 3, "padding": ((1, 1), (1, 1)), "layout": Layout.NCHW},
    "strips of pairs": {**PAIRS, "dtype": DType.BFLOAT16, "r": 7, "s": 7},
    "strips": {**DEPTHWISE, "layout": Layout.NHWC, "dtype": DType.FLOAT32, "r": 6, "s": 6},
    "strips of a border": {**DEPTHWISE, "layout": Layout.NHWC, "padding_mode": Border.REFLECT, "r": 6, "s": 7},
    "tiles of a border": {**DEPTHWISE, "layout": Layout.NHWC, "padding_mode": Border.CIRCULAR, "r": 3, "s": 3},
    "tiles of few sums": {**PAIRS, "dtype": DType.FLOAT16, "r": 3, "s": 3},
    "tiles of pairs": {**PAIRS, "dtype": DType.FLOAT16, "stride": (2, 2)},
    "tiles of a value": {**DEPTHWISE, "layout": Layout.NHWC, "padding_mode": Border.CONSTANT},
    "matrices of a 7x7 filter": {**EIGHTS, "r": 7, "s": 7, "h": 19, "w": 18},
    "matrices of two stretches": {**EIGHTS, "r": 3, "s": 3, "h": 14, "w": 40, "dtype": DType.BFLOAT16},
    "matrices of a stride": {**EIGHTS, "r": 5, "s": 7, "h": 19, "w": 19, "stride": (2, 2), "dilation": (1, 2)},
    "matrices of a large stride": {**EIGHTS, "r": 3, "s": 2, "h": 17, "stride": (3, 4), "dilation": (2, 1)},
    "matrices of a border": {**EIGHTS, "r": 5, "s": 4, "h": 11, "padding_mode": Border.REFLECT},
    "matrices of several blocks of taps": {**EIGHTS, "r": 13, "s": 11, "h": 15, "w": 16, "padding": ((6, 6), (5, 5))},
    "matrices of strips": {**EIGHTS, "c": 8, "k": 8, "groups": 8, "r": 2, "s": 5, "h": 6, "w": 300},
    "matrices of a line": {**EIGHTS, "c": 16, "k": 16, "groups": 16, "r": 1, "s": 4, "h": 1, "w": 150,
                           "padding": ((0, 0), (3, 0))},
    "a ring of pairs": {**PAIRS, "dtype": DType.BFLOAT16, "r": 7, "s": 7, "h": 45, "w": 21, "stride": (2, 2)},
    "a ring, four columns stored": {**DEPTHWISE, "layout": Layout.NCHW, "dtype": DType.FLOAT16, "r": 5, "s": 7, "h": 37,
                                    "w": 20, "stride": (2, 2)},
    "a ring, two columns stored": {**DEPTHWISE, "layout": Layout.NCHW, "dtype": DType.FLOAT32, "r": 3, "s": 3, "h": 20,
                                   "w": 14, "stride": (3, 2)},
    "a ring of a border": {**DEPTHWISE, "layout": Layout.NHWC, "dtype": DType.FLOAT16, "r": 4, "s": 5, "h": 19,
                           "stride": (2, 3), "padding_mode": Border.REFLECT},
    "a ring of several channels": {"c": 12, "k": 6, "groups": 6, "r": 3, "s": 3, "h": 30, "stride": (2, 2)},
    "several blocks of taps": {**DEPTHWISE, "r": 13, "s": 11, "h": 15, "w": 16, "padding": ((6, 6), (5, 5))},
    "more padding than filter": {**DEPTHWISE, "r": 2, "s": 2, "padding": ((4, 1), (3, 4))},
    "a product of matrices": {"c": 12, "k": 80, "groups": 1, "r": 3, "s": 3},
    "groups of several": {"c": 12, "k": 6, "groups": 3},
    "described arrays": {**DENSE, "stride": (1, 1)},
    "described arrays in NCHW": {**DENSE, "stride": (1, 1), "layout": Layout.NCHW},
    "a large stride": {"stride": (9, 9), "r": 2, "s": 2},
    "a large filter": {"stride": (2, 2), "r": 21, "s": 21, "h": 12, "w": 12, "padding": ((10, 10), (10, 10))},
}


def drawn(seed: int, **fixed) -> gradients.Gradients:
    rng = np.random.default_rng(seed)
    return gradients.make(rng, gradients.draw_shape(rng, **fixed))


@pytest.mark.thin(10)
@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(n, marks=pytest.mark.long) for n in range(10, 150))])
def test_drawn_layers(seed):
    made = drawn(settings.seed + seed)
    for operation in OPERATIONS:
        made.check(operation, device="cpu")


@pytest.mark.thin(16)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("operation", ["dx", pytest.param("dw", marks=pytest.mark.long)])
def test_every_form(form, operation):
    drawn(7, **FORMS[form]).check(operation, device="cpu")


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_every_access_is_checked(form):
    made = drawn(11, **FORMS[form])
    shape = made.shape
    for operation in OPERATIONS:
        plan = plan_layer(shape, operation=NAMES[operation])
        loaded, _ = backend.load(plan, mode=Mode.CHECK)
        result = np.empty_like(getattr(made, operation).output, made.x.dtype)
        given = {"x": made.x, "w": made.w, "dy": made.dy, operation: result}
        operands = {a.name: arrays.view(given[a.name], a.name) for a in plan.program.arguments if a.name in given}
        loaded.run(Call(shape, operands), None, None)
        getattr(made, operation).check(result, f"{operation} of {shape}")


@pytest.mark.thin(4)
@pytest.mark.parametrize("seed", range(4))
def test_finite_differences(seed):
    """Of sums of outputs that the forward kernels make, weighted by dy: the layer is linear in x and in w, so that a
    large step has no error but the kernels' own roundings."""
    made = drawn(100 + seed, dtype=DType.FLOAT32)
    shape, rng = made.shape, np.random.default_rng(seed)
    geometry = {"stride": shape.stride, "padding": shape.padding, "dilation": shape.dilation, "groups": shape.groups,
                "padding_mode": shape.padding_mode.value, "padding_value": shape.padding_value,
                "layout": shape.layout.value, "device": "cpu"}

    def loss(x, w):
        return float((warpconv.conv2d(x, w, **geometry).astype(np.float64) * made.dy).sum())

    size = float(np.abs(made.dy).sum()) + 1.0
    for operation, array, of in (("dx", made.x, lambda x: loss(x, made.w)), ("dw", made.w, lambda w: loss(made.x, w))):
        gradient = made.call(operation, device="cpu")
        for _ in range(5):
            place = tuple(int(rng.integers(n)) for n in array.shape)
            up, down = array.copy(), array.copy()
            up[place] += 2.0
            down[place] -= 2.0
            assert abs((of(up) - of(down)) / 4.0 - gradient[place]) <= 1e-5 * size, (operation, place, str(shape))


@pytest.mark.long
@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("groups", [1, 8])
def test_bits_are_equal_over_a_hundred_runs(layout, groups):
    made = drawn(3, layout=layout, c=8, k=8, groups=groups, r=3, s=3, h=12, w=12, n=3, dtype=DType.FLOAT32)
    for operation in OPERATIONS:
        first = made.call(operation, device="cpu").tobytes()
        for run in range(100):
            with env.scope(cpu_threads=1 + run % 2):
                assert made.call(operation, device="cpu").tobytes() == first


def test_an_algorithm_by_name():
    made = drawn(5, **{**FORMS["strips"], "r": 3, "s": 3, "padding": ((1, 1), (1, 1))})
    served = [found.algorithm for found in explain(made.shape, operation="data_gradient") if found.supported]
    assert {"phases", "channels", "direct"} <= set(served)
    for algorithm in served:
        made.check("dx", device="cpu", algorithm=algorithm)
    with pytest.raises(UnsupportedSpec, match="filter_gradient is not served"):
        made.call("dw", device="cpu", algorithm="phases")


@pytest.mark.thin(5)
@pytest.mark.parametrize("algorithm, groups, channels, filters, layout", [
    ("wgmma", 1, 40, 72, Layout.NHWC), ("wgmma", 1, 16, 24, Layout.NCHW), ("mma", 1, 128, 64, Layout.NHWC),
    ("mma", 2, 64, 32, Layout.NHWC), ("mma", 1, 64, 128, Layout.NCHW)])
def test_a_filter_is_left_in_the_order_in_which_it_is_read(algorithm, groups, channels, filters, layout):
    """Where that is (C, R, S, K/groups): nothing is made of the turned filter by a launch of its own."""
    made = drawn(9, **{**DENSE, "c": channels * groups, "k": filters * groups, "groups": groups, "stride": (1, 1),
                       "layout": layout})
    values = {"tile_m": 64, "tile_n": 32, "tile_k": 32, "warps_m": 2, "warps_n": 2, "stages": 3, "splits": 1}
    values = values if algorithm == "mma" else {}
    plan = plan_layer(made.shape, operation="data_gradient", algorithm=algorithm, settings=values)
    assert plan.program.entries[0] == "turn_filter" and "prepare_filter" not in plan.program.entries
    check_data_gradient(made, plan)


@pytest.mark.parametrize("filters", (64, 20))
def test_planes_take_the_turned_filter_as_it_is(filters):
    """Of 64 channels, which are whole 16 bytes; 20 are filled up by a launch."""
    made = drawn(9, **{**DENSE, "c": 72, "k": filters, "r": 1, "s": 1, "h": 8, "w": 8, "padding": ((0, 0), (0, 0)),
                       "stride": (1, 1), "layout": Layout.NCHW})
    values = {"form": "planes", "filters": 64, "pixels": 64, "stages": 2, "splits": 1}
    plan = plan_layer(made.shape, operation="data_gradient", algorithm="wgmma", settings=values)
    assert ("prepare_filter" in plan.program.entries) == (filters == 20)
    check_data_gradient(made, plan)


def check_data_gradient(made, plan) -> None:
    loaded, _ = backend.load(plan, mode=Mode.CHECK)
    dx = np.full_like(made.x, np.nan)
    given = {"w": made.w, "dy": made.dy, "dx": dx}
    loaded.run(Call(made.shape, {name: arrays.view(array, name) for name, array in given.items()}), None, None)
    made.dx.check(dx, str(made.shape))


@pytest.mark.thin(2)
@pytest.mark.parametrize("operation, stride, taken, otherwise", [
    ("data_gradient", 1, "wgmma", "direct"), ("data_gradient", 2, "phases_mma", "phases"),
    ("filter_gradient", 1, "filter_gradient_", "filter_gradient")])
def test_arrays_at_any_address(operation, stride, taken, otherwise):
    layer = ConvShape(n=8, c=64, h=28, w=28, k=64, r=3, s=3, padding=1, stride=stride, dtype="float16", layout="NHWC")
    ask = kernels.asked(layer, None, operation=Operation(operation))
    kernel = kernels.kernel_of(ask)
    assert kernel.spec.algorithm.startswith(taken) and kernel.aligned
    found = kernels.anywhere(kernel, ask)
    assert found.spec.algorithm == otherwise and all(a.admits(2) for a in found.program.arguments if a.is_pointer)


def test_orders_of_axes_and_given_outputs():
    made = drawn(6, **{**FORMS["strips"], "r": 3, "s": 3})
    shape, turned = made.shape, (0, 3, 1, 2)
    geometry = {"padding": shape.padding, "groups": shape.groups, "device": "cpu"}
    dx = warpconv.conv2d_input(shape.input_shape, made.w, made.dy.transpose(turned), **geometry)
    assert dx.transpose(0, 2, 3, 1).flags["C_CONTIGUOUS"], "the order in memory is kept"
    made.dx.check(np.ascontiguousarray(dx.transpose(0, 2, 3, 1)))
    other = np.ascontiguousarray(made.dy.transpose(turned))         # another order in memory than the input's
    dw = warpconv.conv2d_weight(made.x.transpose(turned), shape.weight_shape, other, **geometry)
    made.dw.check(dw)
    wide = np.full((*shape.input_shape[:3], 2 * shape.w), np.nan, np.float32)
    out = wide[..., ::2]
    assert warpconv.conv2d_input(shape.input_shape, made.w, made.dy.transpose(turned), out=out, **geometry) is out
    made.dx.check(np.ascontiguousarray(out.transpose(0, 2, 3, 1)))
    assert np.isnan(wide[..., 1::2]).all()


@pytest.mark.thin(6)
@pytest.mark.parametrize("stride, output_padding, dilation, padding", [
    (1, 0, 1, 0), (2, 1, 1, 1), (3, 2, 2, 2), ((2, 3), (0, 1), (1, 2), (1, 0)), (1, 1, 3, 2)])
@pytest.mark.parametrize("layout", Layout)
def test_transposed(stride, output_padding, dilation, padding, layout):
    """Beside products spread over a larger image, tap by tap."""
    rng = np.random.default_rng(8)
    x, w, bias = (rng.standard_normal(n).astype(np.float32) for n in ((2, 6, 5, 4), (6, 4, 3, 3), (8,)))
    (sh, sw), (ph, pw), (oh, ow), (dh, dw) = (v if isinstance(v, tuple) else (v, v)
                                              for v in (stride, padding, output_padding, dilation))
    spread = np.zeros((2, 8, 4 * sh + 2 * dh + 1 + oh, 3 * sw + 2 * dw + 1 + ow))
    for group in range(2):
        for r in range(3):
            for s in range(3):
                spread[:, 4 * group:4 * group + 4, r * dh:r * dh + 4 * sh + 1:sh, s * dw:s * dw + 3 * sw + 1:sw] += (
                    np.einsum("nchw,ck->nkhw", x[:, 3 * group:3 * group + 3].astype(np.float64),
                              w[3 * group:3 * group + 3, :, r, s].astype(np.float64)))
    exact = spread[:, :, ph:spread.shape[2] - ph, pw:spread.shape[3] - pw] + bias[:, None, None]
    given = x if layout is Layout.NCHW else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    y = warpconv.conv_transpose2d(given, w, bias, stride, padding, output_padding, 2, dilation, layout=layout,
                                  device="cpu")
    y = y if layout is Layout.NCHW else y.transpose(0, 3, 1, 2)
    assert y.shape == exact.shape and np.abs(y - exact).max() < 2e-5


def test_one_transposed_image():
    rng = settings.generator(12)
    x, w, bias = (rng.standard_normal(size, np.float32) for size in ((2, 4, 7, 6), (4, 3, 3, 3), (3,)))
    whole = warpconv.conv_transpose2d(x, w, bias, 2, 1, 1, device="cpu")
    assert np.array_equal(warpconv.conv_transpose2d(x[1], w, bias, 2, 1, 1, device="cpu"), whole[1])
    out = np.full(whole.shape[1:], np.nan, np.float32)
    assert warpconv.conv_transpose2d(x[1], w, bias, 2, 1, 1, out=out, device="cpu") is out
    assert np.array_equal(out, whole[1])
    last = warpconv.conv_transpose2d(x[1].transpose(1, 2, 0), w, bias, 2, 1, 1, layout="NHWC", device="cpu")
    assert np.abs(last.transpose(2, 0, 1) - whole[1]).max() < 1e-5
    with pytest.raises(ShapeError, match="out has") as caught:
        warpconv.conv_transpose2d(x[1], w, bias, 2, 1, 1, out=whole, device="cpu")
    assert caught.value.argument == "out"


def test_what_cannot_be_is_refused_by_name():
    x, w, dy = (np.zeros(n, np.float32) for n in ((1, 4, 8, 8), (4, 1, 3, 3), (1, 4, 6, 6)))
    for error, argument, call in (
            (ShapeError, "grad_output", lambda: warpconv.conv2d_input(x.shape, w, dy, padding=1, groups=4)),
            (ShapeError, "weight", lambda: warpconv.conv2d_input((1, 3, 8, 8), w, dy, groups=4)),
            (ShapeError, "input_size", lambda: warpconv.conv2d_input((4, 8, 8), w, dy, groups=4)),
            (ArgumentTypeError, "input_size", lambda: warpconv.conv2d_input(8, w, dy, groups=4)),
            (ArgumentTypeError, "weight", lambda: warpconv.conv2d_input(x.shape, w.astype("e"), dy, groups=4)),
            (ArgumentTypeError, "grad_output", lambda: warpconv.conv2d_weight(x, w.shape, dy.astype("e"), groups=4)),
            (ShapeError, "grad_output", lambda: warpconv.conv2d_weight(x, w.shape, dy[:, :, 1:], groups=4)),
            (ShapeError, "weight", lambda: warpconv.conv_transpose2d(x, w[:3], groups=1)),
            (ShapeError, "output_padding", lambda: warpconv.conv_transpose2d(x, w, output_padding=1, groups=4)),
            (ShapeError, "output_padding", lambda: warpconv.conv_transpose2d(x, w, output_padding=-1, groups=4)),
            (ShapeError, "output_padding", lambda: warpconv.conv_transpose2d(x, w, output_padding=(0, 1, 0), groups=4)),
            (ShapeError, "groups", lambda: warpconv.conv_transpose2d(x, w, groups=3)),
            (ShapeError, "padding", lambda: warpconv.conv_transpose2d(x, w, padding=9, groups=4)),
            (ArgumentError, "padding", lambda: warpconv.conv_transpose2d(x, w, padding="same", groups=4)),
            (ShapeError, "bias", lambda: warpconv.conv_transpose2d(x, w, np.zeros(3, "f"), groups=4)),
            (ArgumentError, "out", lambda: warpconv.conv2d_input(
                dy.shape, w, dy, padding=1, groups=4, out=dy, device="cpu")),
            (ShapeError, "out", lambda: warpconv.conv2d_weight(
                x, w.shape, dy, groups=4, out=np.zeros((4, 1, 3, 2), "f"), device="cpu"))):
        with pytest.raises(error) as caught:
            call()
        assert caught.value.argument == argument, str(caught.value)


def test_a_kernel_of_a_gradient_is_not_called_as_a_layer():
    made = drawn(2)
    plan = plan_layer(made.shape, operation="data_gradient")
    with pytest.raises(ArgumentError, match="forward layer"):
        warpconv.specialize(made.shape, plan=plan, device="cpu")
    kernel = kernels.make(plan, None).for_axes(made.shape.layout)
    with pytest.raises(ArgumentError, match="gradient"):
        kernel(made.dy, made.w)
