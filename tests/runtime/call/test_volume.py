"""conv3d and its gradients, against a loop over the taps in float64."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import warpconv
from tests import checks
from tests.volumes import TYPES, drawn
from warpconv import ArgumentError, ArgumentTypeError, ShapeError, UnsupportedSpec
from warpconv.codegen import registry
from warpconv.codegen.border import Border
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.call import kernels

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
conv3d = functools.partial(warpconv.conv3d, device="cpu")


@pytest.mark.thin(12)
@pytest.mark.parametrize("number", range(24))
def test_drawn_layers(number):
    layer = drawn(number)
    out = np.full(layer.stored(layer.dy).shape, np.nan, layer.x.dtype)
    got = conv3d(layer.stored(layer.x), layer.w, layer.b, **layer.options, out=out,
                 padding_value=layer.shape.padding_value)
    assert got is out
    layer.check_forward(got if layer.shape.layout.value == "NCHW" else np.moveaxis(got, -1, 1))


@pytest.mark.thin(6)
@pytest.mark.parametrize("border, dtype", [
    pytest.param(border, dtype, marks=() if dtype is TYPES[0] or border in (Border.ZEROS, Border.REFLECT)
                 else pytest.mark.long) for dtype in TYPES for border in Border])
def test_every_border_and_type_of_the_form_that_marches(border, dtype):
    """Depthwise, an even and asymmetric filter, rows that are no multiple of a vector, padding beyond the volume."""
    layer = drawn(5, n=2, c=3, k=3, groups=3, d=6, h=3, w=35, t=3, r=2, s=4, stride=(1, 1, 1), dilation=(1, 1, 1),
                  padding=((2, 1), (4, 0), (1, 5)), dtype=dtype, layout="NCHW", padding_mode=border)
    assert plan_layer(layer.shape).options.form.value == "march"
    layer.check_forward(conv3d(layer.x, layer.w, layer.b, **layer.options, padding_value=layer.shape.padding_value))


@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
def test_arrays_at_any_address(layout):
    """Vectors of columns, and words of two channels, ask for aligned arrays; others have another kernel."""
    rng = np.random.default_rng(4)

    def placed(sizes, odd):
        room = np.zeros(np.prod(sizes) + 64, np.float16)
        start = (-room.ctypes.data // 2) % 32 + odd
        room[start:start + np.prod(sizes)] = rng.standard_normal(np.prod(sizes))
        return room[start:start + np.prod(sizes)].reshape(sizes)

    sizes = (1, 2, 3, 5, 8) if layout == "NCDHW" else (1, 3, 5, 8, 2)
    w, geometry = placed((2, 1, 3, 3, 3), 0), {"padding": 1, "groups": 2, "layout": layout}
    for odd in (1, 3):
        x, dy = placed(sizes, odd), placed(sizes, odd)
        assert conv3d(x, w, **geometry).tobytes() == conv3d(placed_like(x), w, **geometry).tobytes()
        made = [warpconv.conv3d_weight(*arrays, device="cpu", **geometry).astype(np.float64)
                for arrays in ((x, w.shape, dy), (placed_like(x), w.shape, placed_like(dy)))]
        np.testing.assert_allclose(*made, atol=2e-2)


def placed_like(array):
    """A copy that begins at a multiple of 64 bytes."""
    room = np.zeros(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start:start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@pytest.mark.parametrize("dtype, weights", [("uint8", "int8"), ("int16", "int16"), ("uint8", "float32")])
def test_integers(dtype, weights):
    rng = np.random.default_rng(3)
    x = rng.integers(0, 100, (1, 2, 5, 6, 21)).astype(dtype)
    w = rng.integers(-3, 4, (2, 1, 3, 2, 3)).astype(weights)
    got = conv3d(x, w, padding=1, groups=2, out_dtype="int32", cast="truncate")
    padded = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (1, 1), (1, 1), (1, 1)))
    wanted = sum(padded[:, :, t:t + 5, r:r + 7, s:s + 21] * w[:, 0, t, r, s].astype(np.int64).reshape(2, 1, 1, 1)
                 for t in range(3) for r in range(2) for s in range(3))
    np.testing.assert_array_equal(got, wanted)


def test_one_volume_same_padding_residual_and_activation():
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(sizes).astype(np.float32) for sizes in ((2, 6, 7, 12), (2, 1, 4, 3, 3)))
    whole = conv3d(x[None], w, padding="same", groups=2)
    added = rng.standard_normal(whole[0].shape).astype(np.float32)
    got = conv3d(x, w, padding="same", groups=2, residual=added, activation="relu", out=np.empty_like(added))
    assert whole.shape == (1, 2, 6, 7, 12)
    np.testing.assert_allclose(got, np.maximum(whole[0] + added, 0), rtol=1e-6, atol=1e-6)


def test_memory_in_the_other_order_is_kept():
    layer = drawn(7, c=4, k=4, groups=4, layout="NCHW", dtype=TYPES[0])
    turned = np.ascontiguousarray(np.moveaxis(layer.x, 1, -1))
    got = conv3d(np.moveaxis(turned, -1, 1), layer.w, layer.b, **layer.options,
                 padding_value=layer.shape.padding_value)
    layer.check_forward(got)
    assert np.moveaxis(got, 1, -1).flags.c_contiguous


def test_an_output_at_an_odd_address_and_one_with_gaps():
    layer = drawn(8, c=2, k=2, groups=2, d=5, h=6, w=16, t=3, r=3, s=3, stride=(1, 1, 1), dilation=(1, 1, 1),
                  padding=((1, 1),) * 3, layout="NCHW", dtype=TYPES[0], padding_mode=Border.REFLECT)
    assert plan_layer(layer.shape).options.vector == 4
    room = np.full(layer.dy.size + 1, np.nan, np.float32)
    layer.check_forward(conv3d(layer.x, layer.w, layer.b, **layer.options, out=room[1:].reshape(layer.dy.shape)))
    wide = np.full((*layer.dy.shape[:-1], 20), np.nan, np.float32)
    layer.check_forward(conv3d(layer.x, layer.w, layer.b, **layer.options, out=wide[..., 2:18]))
    assert np.isnan(wide[..., 18:]).all() and np.isnan(wide[..., :2]).all()


@pytest.mark.thin(8)
@pytest.mark.parametrize("number", range(20))
def test_gradients_of_drawn_layers(number):
    layer = drawn(1000 + number)
    sizes = layer.stored(layer.x).shape
    dx = np.full(sizes, np.nan, layer.x.dtype)
    warpconv.conv3d_input(sizes, layer.w, layer.stored(layer.dy), **layer.options, out=dx, device="cpu")
    layer.check_gradient(dx if layer.shape.layout.value == "NCHW" else np.moveaxis(dx, -1, 1), "dx")
    arguments = layer.stored(layer.x), layer.w.shape, layer.stored(layer.dy)
    dw = np.full(layer.w.shape, np.nan, layer.x.dtype)
    more = {"padding_value": layer.shape.padding_value, "device": "cpu"}
    warpconv.conv3d_weight(*arguments, **layer.options, **more, out=dw)
    layer.check_gradient(dw, "dw")
    assert dw.tobytes() == warpconv.conv3d_weight(*arguments, **layer.options, **more).tobytes()


def test_the_data_gradient_of_stride_1_marches():
    layer = drawn(2, c=3, k=3, groups=3, t=3, r=3, s=3, stride=(1, 1, 1), dilation=(1, 1, 1), padding=((1, 1),) * 3,
                  d=6, h=7, w=18, padding_mode=Border.ZEROS, layout="NCHW", dtype=TYPES[0])
    plan = plan_layer(layer.shape, operation="data_gradient")
    assert plan.spec.algorithm == "volume" and plan.forward.options.form.value == "march"
    layer.check_gradient(warpconv.conv3d_input(layer.x.shape, layer.w, layer.dy, **layer.options, device="cpu"), "dx")


def test_a_long_filter_has_more_tiles_of_taps():
    layer = drawn(11, c=1, k=2, groups=1, t=2, r=7, s=9, stride=(1, 1, 1), dilation=(1, 1, 1), d=3, h=9, w=37,
                  padding=((1, 0), (3, 3), (4, 4)), layout="NCHW", dtype=TYPES[0], padding_mode=Border.CIRCULAR)
    layer.check_gradient(warpconv.conv3d_weight(layer.x, layer.w.shape, layer.dy, **layer.options, device="cpu"), "dw")


X, W = np.zeros((1, 2, 4, 5, 6), np.float32), np.zeros((2, 1, 3, 3, 3), np.float32)


@pytest.mark.parametrize("arguments, options, error, argument", [
    ((X[0, 0], W), {}, ShapeError, "input"), ((X, W[0]), {}, ShapeError, "weight"),
    ((X, W), {}, ShapeError, "weight"), ((X, W), {"groups": 2, "stride": (1, 2)}, ShapeError, "stride"),
    ((X, W), {"groups": 2, "padding": "full"}, ShapeError, "padding"),
    ((X, W), {"groups": 2, "padding": (1, 1)}, ShapeError, "padding"),
    ((X[:, :, :2], W), {"groups": 2}, ShapeError, "input"),
    ((X, W), {"groups": 2, "layout": "NCHW"}, ArgumentError, "layout"),
    ((X, W), {"groups": 2, "algorithm": "direct"}, UnsupportedSpec, None),
    ((X, W), {"groups": 2, "out": np.zeros((1, 2, 2, 3, 5), np.float32)}, ShapeError, "out"),
    ((X[0], W), {"groups": 2, "out": np.zeros((1, 2, 2, 3, 4), np.float32)}, ShapeError, "out"),
    ((X.astype(np.float64), W), {"groups": 2}, ArgumentTypeError, "input")])
def test_what_cannot_be_is_refused_by_name(arguments, options, error, argument):
    with pytest.raises(error) as caught:
        conv3d(*arguments, **options)
    assert argument is None or caught.value.argument == argument
    assert caught.value.hint or error is UnsupportedSpec


def test_a_shape_has_both_depths_or_neither():
    with pytest.raises(ShapeError, match="depth"):
        ConvShape(c=1, h=5, w=5, k=1, r=3, s=3, d=4)
    shape = ConvShape.of(X.shape, W.shape, groups=2, padding="same")
    assert shape.output_shape == X.shape and shape.macs == 2 * 27 * 120 and shape.padding == ((1, 1),) * 3
    assert "w[2, 1, 3, 3, 3]" in str(shape) and shape.bytes_moved == 4 * (2 * 240 + 54)


@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_one_tap_is_a_layer_of_images(layout, dtype):
    """In float32 by any algorithm for images, into a given output too. Other types, an output whose planes do not
    follow each other, a named algorithm and what is wrong go the way of volumes."""
    rng = np.random.default_rng(6)
    x = (rng.standard_normal((2, 6, 3, 4, 5)) * 20).astype(dtype)
    w = rng.standard_normal((8, 3, 1, 1, 1)).astype("float32" if dtype == "uint8" else dtype)
    turned = (lambda a: a) if layout == "NCDHW" else (lambda a: np.ascontiguousarray(np.moveaxis(a, 1, -1)))
    options = {"groups": 2, "layout": layout, "activation": "relu",
               "out_dtype": "float32" if dtype == "uint8" else None}
    made = conv3d(turned(x), w, **options)
    wide = np.einsum("ngcdhw,gkc->ngkdhw", x.astype(np.float64).reshape(2, 2, 3, 3, 4, 5),
                     w.astype(np.float64).reshape(2, 4, 3)).reshape(2, 8, 3, 4, 5)
    np.testing.assert_allclose(made, turned(np.maximum(wide, 0)), rtol=2e-3 if dtype == "float16" else 1e-5, atol=5e-3)
    out = np.full(made.shape, np.nan, made.dtype)
    assert conv3d(turned(x), w, **options, out=out) is out and out.tobytes() == made.tobytes()
    apart = np.zeros((*made.shape[:2], 2 * made.shape[2], *made.shape[3:]), made.dtype)[:, :, ::2]
    assert conv3d(turned(x), w, **options, out=apart) is apart
    assert np.allclose(apart, made, rtol=2e-3, atol=1e-2)
    assert np.allclose(conv3d(turned(x), w, **options, algorithm="volume"), made, rtol=2e-3, atol=1e-2)
    assert conv3d(turned(x)[0], w, **options).tobytes() == made[0].tobytes()
    with pytest.raises(ShapeError, match=r"2 groups of it make 4 channels") as caught:
        conv3d(turned(x), w[:, :2], **options)
    assert caught.value.argument == "weight" and len(caught.value.value) == 5


@pytest.mark.parametrize("options, argument", [({"dilation": 0}, "dilation"), ({"groups": 3}, "weight"),
                                               ({"stride": (2, 1)}, "stride"), ({"padding": "full"}, "padding")])
def test_a_layer_of_one_tap_is_checked_as_volumes_are(options, argument):
    x, w = np.zeros((1, 4, 2, 3, 5), np.float32), np.zeros((4, 4, 1, 1, 1), np.float32)
    with pytest.raises(warpconv.WarpconvError) as caught:
        conv3d(x, w, **options)
    assert caught.value.argument == argument


@pytest.mark.thin(12)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype, algorithm", [
    (dtype, name) for rows in (registry.VOLUMES, registry.ALGORITHMS, registry.GRADIENTS) for name, row in rows.items()
    for dtype in ("float32", "float16") if 3 in row.spatial
    and (dtype, name) not in (("float32", "filter_gradient_wgmma"), ("float16", "filter_gradient_tma"))])
def test_each_algorithm_has_another_for_arrays_at_any_address(algorithm, dtype, layout):
    """Of the same operation, and for three axes; what asks for vectors or descriptors finds one that asks for none."""
    shape = ConvShape.of((2, 64, 6, 8, 8) if layout == "NCHW" else (2, 6, 8, 8, 64), (64, 64, 3, 3, 3), padding=1,
                         stride=2 if algorithm == "phases_mma" else 1, dtype=dtype, layout=layout)
    operation = registry.algorithm(algorithm).operation
    precision = "tf32" if dtype == "float32" and ("mma" in algorithm or "tma" in algorithm) else "float32"
    ask = kernels.asked(shape, None, arch="sm_90a", operation=operation, algorithm=algorithm, precision=precision)
    kernel = kernels.kernel_of(ask)
    found = kernels.anywhere(kernel, ask)
    pointers = [argument for argument in found.program.arguments if argument.is_pointer]
    assert pointers and all(argument.admits(shape.dtype.itemsize) for argument in pointers)
    assert found.spec.operation is kernel.spec.operation and 3 in registry.algorithm(found.spec.algorithm).spatial


def test_the_precision_of_products_is_asked_for():
    rng = np.random.default_rng(7)
    x, w = rng.standard_normal((1, 16, 4, 5, 6), np.float32), rng.standard_normal((8, 16, 3, 3, 3), np.float32)
    exact = conv3d(x, w, padding=1, precision="ieee")
    rounded, split = (conv3d(x, w, padding=1, precision=name, algorithm="mma") for name in ("tf32", "tf32x3"))
    off = np.abs(rounded - exact).max() / np.abs(exact).max()
    assert 1e-5 < off < 2e-3 and np.abs(split - exact).max() < 1e-5 * np.abs(exact).max()
    with pytest.raises(ArgumentError, match="precision"):
        conv3d(x, w, precision="double")
