"""ConvInteger and QLinearConv: exact sums, zero points of image and filter, one scale and one for each filter."""

import numpy as np
import pytest
from onnx import TensorProto

from tests.runtime.models.make import conv, evaluated, model, pack_of, saved
from warpconv.runtime.models.source import read_model

TYPES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
X, W = (2, 3, 7, 8), (4, 3, 3, 3)


def bytes_of(rng, shape, dtype):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def zero_point(values, dtype):
    return np.array(values, dtype)


def integer(x_type, w_type, x0, w0, seed=0):
    rng = np.random.default_rng(seed)
    constants = {"w": bytes_of(rng, W, w_type)}
    inputs = ["x", "w", "", ""]
    if x0 is not None:
        constants["x0"], inputs[2] = zero_point(x0, x_type), "x0"
    if w0 is not None:
        constants["w0"], inputs[3] = zero_point(w0, w_type), "w0"
    while not inputs[-1]:
        inputs.pop()
    proto = model([conv(inputs, op="ConvInteger", pads=[1, 0, 2, 1], strides=[1, 2])],
                  {"x": (TYPES[x_type], list(X))}, ["y"], constants, out=TensorProto.INT32)
    return proto, bytes_of(rng, X, x_type)


def exact_integer(proto, x, x0, w0):
    """In whole numbers, tap by tap."""
    from onnx import numpy_helper
    w = numpy_helper.to_array(proto.graph.initializer[0]).astype(np.int64)
    w = w - np.asarray(0 if w0 is None else w0).reshape(-1, 1, 1, 1)
    padded = np.pad(x.astype(np.int64) - (x0 or 0), ((0, 0), (0, 0), (1, 2), (0, 1)))
    q = (padded.shape[3] - 3) // 2 + 1
    return sum(np.einsum("nchw,kc->nkhw", padded[:, :, r:r + padded.shape[2] - 2, s:s + 2 * q - 1:2], w[:, :, r, s])
               for r in range(3) for s in range(3))


CASES = {"plain": ("uint8", "int8", None, None), "signed": ("int8", "int8", 0, 0),
         "bytes": ("uint8", "uint8", None, None), "filter": ("uint8", "uint8", None, 113),
         "filters": ("int8", "int8", None, [3, -7, 0, 100]), "image": ("uint8", "int8", 128, None),
         "both": ("uint8", "uint8", 7, 131), "negative": ("int8", "int8", -9, 5)}


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", CASES)
def test_conv_integer(name, tmp_path, monkeypatch):
    x_type, w_type, x0, w0 = CASES[name]
    proto, x = integer(x_type, w_type, x0, w0)
    found = read_model(saved(proto, tmp_path))
    assert found.left_out == () and found[0].numerics.value == "int32" and found[0].shape.y_dtype.value == "int32"
    y = pack_of(found, tmp_path / "pack", monkeypatch).conv("/ConvInteger/y", device="cpu")(x)
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, exact_integer(proto, x, x0, w0))
    if w0 is None and x0 is None:               # the evaluator has it too
        np.testing.assert_array_equal(y, evaluated(proto, {"x": x})[0])


def linear(x_type, w_scale, x0=12, w0=3, y0=100, bias=True, y_type="uint8", seed=0):
    rng = np.random.default_rng(seed)
    scales = np.asarray(w_scale, "f")
    constants = {"xs": np.array(0.02, "f"), "x0": zero_point(x0, x_type), "w": bytes_of(rng, W, "int8"), "ws": scales,
                 "w0": np.full(scales.shape, w0, "int8"), "ys": np.array(0.9, "f"), "y0": zero_point(y0, y_type),
                 "b": rng.integers(-4000, 4000, W[0], np.int32)}
    inputs = ["x", "xs", "x0", "w", "ws", "w0", "ys", "y0", *(["b"] if bias else [])]
    proto = model([conv(inputs, op="QLinearConv", pads=[1, 1, 1, 1])], {"x": (TYPES[x_type], list(X))}, ["y"],
                  constants, out=TYPES[y_type])
    return proto, bytes_of(rng, X, x_type), constants


LINEAR = {"one scale": {"x_type": "uint8", "w_scale": 0.04},
          "signed": {"x_type": "int8", "w_scale": 0.04, "x0": -3, "y0": 1, "y_type": "int8"},
          "no bias": {"x_type": "uint8", "w_scale": 0.03, "x0": 0, "bias": False},
          "a scale for each filter": {"x_type": "uint8", "w_scale": [0.04, 0.001, 0.02, 0.3]}}


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", LINEAR)
def test_qlinear_conv(name, tmp_path, monkeypatch):
    proto, x, held = linear(**LINEAR[name])
    found = read_model(saved(proto, tmp_path))
    assert found.left_out == () and ("quantize" in str(found[0].epilogue)) == (name != "a scale for each filter")
    y = pack_of(found, tmp_path / "pack", monkeypatch).conv("/QLinearConv/y", device="cpu")(x)
    w = held["w"].astype(np.int64) - held["w0"].astype(np.int64).reshape(-1, 1, 1, 1)
    padded = np.pad(x.astype(np.int64) - held["x0"].astype(np.int64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    sums = sum(np.einsum("nchw,kc->nkhw", padded[:, :, r:r + X[2], s:s + X[3]], w[:, :, r, s])
               for r in range(3) for s in range(3)) + (held["b"] if "b" in proto.graph.node[0].input else np.zeros(
                   W[0], int))[None, :, None, None]
    by = (held["xs"].astype(float) * held["ws"].astype(float) / held["ys"]).reshape(-1, 1, 1)
    exact = sums * by + float(held["y0"])
    info = np.iinfo(y.dtype)
    near = np.clip(np.rint(exact), info.min, info.max)
    # equal, but where the exact number lies so near a half that float32 may round it the other way
    close = np.abs(exact - np.floor(exact) - 0.5) < 1e-4 * np.maximum(1.0, np.abs(exact))
    assert ((y == near) | close).all() and (np.abs(y.astype(int) - near) <= 1).all() and close.mean() < 0.2
    assert len(np.unique(y)) > 50               # not all of it at a limit


@pytest.mark.parametrize("change, words", [("x0", "x_zero_point is computed"), ("w", "filter is computed"),
                                           ("b", "bias is computed"), ("ys", "y_scale is computed")])
def test_what_is_computed_is_left_out(change, words, tmp_path):
    proto, _, _ = linear("uint8", 0.04)
    from onnx import helper
    held = next(tensor for tensor in proto.graph.initializer if tensor.name == change)
    proto.graph.input.append(helper.make_tensor_value_info(change, held.data_type, held.dims))
    proto.graph.initializer.remove(held)
    (left,) = read_model(saved(proto, tmp_path)).left_out
    assert words in left.reason


def test_sums_that_float32_cannot_hold_are_left_out(tmp_path):
    w = np.full((2, 600, 3, 3), 127, np.int8)
    proto = model([conv(["x", "w", "x0"], op="ConvInteger")], {"x": (TensorProto.UINT8, [1, 600, 5, 5])}, ["y"],
                  {"w": w, "x0": np.array(3, np.uint8)}, out=TensorProto.INT32)
    (left,) = read_model(saved(proto, tmp_path)).left_out
    assert "x_zero_point is 3" in left.reason


@pytest.mark.parametrize("change, words", [("ws", "w_scale"), ("w0", "w_zero_point"), ("b", "bias")])
def test_what_has_other_sizes_is_left_out(change, words, tmp_path):
    """Three numbers for four filters."""
    from onnx import numpy_helper
    proto, _, held = linear("uint8", 0.04)
    tensor = next(tensor for tensor in proto.graph.initializer if tensor.name == change)
    tensor.CopyFrom(numpy_helper.from_array(np.resize(held[change], 3), change))
    (left,) = read_model(saved(proto, tmp_path)).left_out
    assert left.reason == f"its {words} has sizes [3], not [4]"
