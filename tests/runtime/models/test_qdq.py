"""A Conv between DequantizeLinear and QuantizeLinear: a layer of bytes where that pays, else one of floating-point
numbers whose filter the model holds."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.runtime.models.make import conv, evaluated, model, pack_of, saved
from warpconv.runtime.models.source import read_model

node = helper.make_node
TYPES = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}
SIDE = 24


def quantised(x_type=np.uint8, y_type=np.uint8, w_type=np.int8, scales=0.02, x0=117, w0=0, y0=100, bias=True, clip=(),
              channels=8, outputs=8, groups=8, taps=3, axis=0, opset=20, stem=False):
    """A model of one convolution as quantisers leave it, and an image. ``stem``: the image is float32, and quantised
    by the model itself."""
    rng = np.random.default_rng(7)
    scales = np.asarray(scales, np.float32)
    info = np.iinfo(w_type)
    w = rng.integers(info.min, info.max, (outputs, channels // groups, taps, taps), w_type, endpoint=True)
    sx, sy = np.float32(0.03), np.float32(0.2)
    held = {"sx": sx, "x0": np.array(x0, x_type), "w": w, "sw": scales, "w0": np.full(scales.shape, w0, w_type),
            "sy": sy, "y0": np.array(y0, y_type)}
    by = {"axis": axis} if scales.ndim else {}
    nodes = [node("DequantizeLinear", ["w", "sw", "w0"], ["wf"], name="dq_w", **by)]
    inputs = ["xf", "wf"]
    if bias:
        held |= {"b": rng.integers(-4000, 4000, outputs, np.int32), "sb": sx * scales}
        nodes.append(node("DequantizeLinear", ["b", "sb"], ["bf"], name="dq_b", **({"axis": 0} if scales.ndim else {})))
        inputs.append("bf")
    if stem:
        nodes.append(node("QuantizeLinear", ["image", "sx", "x0"], ["x"], name="q_x"))
    nodes += [node("DequantizeLinear", ["x", "sx", "x0"], ["xf"], name="dq_x"),
              conv(inputs, "a", pads=[taps // 2] * 4, group=groups)]
    last = "a"
    for number, step in enumerate(clip):
        if step == "Relu":
            nodes.append(node("Relu", [last], [f"c{number}"], name=f"relu{number}"))
        else:
            held |= {f"low{number}": np.float32(step[0]), f"high{number}": np.float32(step[1])}
            nodes.append(node("Clip", [last, f"low{number}", f"high{number}"], [f"c{number}"], name=f"clip{number}"))
        last = f"c{number}"
    nodes.append(node("QuantizeLinear", [last, "sy", "y0"], ["y"], name="q_y"))
    sizes = [2, channels, SIDE, SIDE + 1]
    x = rng.integers(np.iinfo(x_type).min, np.iinfo(x_type).max, sizes, x_type, endpoint=True)
    given = {"image": (TensorProto.FLOAT, sizes)} if stem else {"x": (TYPES[x_type], sizes)}
    return model(nodes, given, ["y"], held, out=TYPES[y_type], opset=opset), x


def exact(proto, x):
    """What the model computes, in float64, by onnx's reference of opset 21, which has these operations."""
    del proto.opset_import[:]
    proto.opset_import.append(helper.make_opsetid("", 21))
    return evaluated(proto, {"x": x})[0]


CASES = {
    "one scale": {}, "signed": {"x_type": np.int8, "y_type": np.int8, "x0": -3, "y0": 4},
    "relu that the stored type does": {"clip": ("Relu",), "y0": 0, "x0": 0},
    "relu": {"clip": ("Relu",)}, "relu6": {"clip": ((0.0, 6.0),)},
    "clips": {"clip": ((-3.0, 9.0), "Relu", (-1.0, 4.5)), "y_type": np.int8, "y0": -20},
    "unsigned filter": {"w_type": np.uint8, "w0": 128}, "unsigned filter of int16": {"w_type": np.uint8, "w0": 3},
    "no bias": {"bias": False}, "old": {"opset": 13},
    "a scale for each filter": {"scales": np.linspace(0.001, 0.05, 8)},
    "a scale for each filter, clipped": {"scales": np.linspace(0.001, 0.05, 8), "clip": ("Relu", (0.0, 6.0))},
    "few channels": {"channels": 2, "groups": 1, "outputs": 2, "taps": 3},
}


@pytest.mark.thin(8)
@pytest.mark.parametrize("name", CASES)
def test_a_layer_of_bytes(name, tmp_path, monkeypatch):
    proto, x = quantised(**CASES[name])
    found = read_model(saved(proto, tmp_path))
    (layer,) = found
    assert (layer.op, layer.input, layer.output, found.left_out) == ("Conv", "x", "y", ())
    assert layer.shape.dtype.value == x.dtype.name
    assert {"a", "xf", "wf"} <= set(layer.inner) and {"dq_x", "q_y"} <= set(layer.folded)
    y = pack_of(found, tmp_path / "pack", monkeypatch).conv("/Conv/a", device="cpu")(x)
    wanted = exact(proto, x)
    assert y.dtype == wanted.dtype
    off = np.abs(y.astype(int) - wanted.astype(int))
    # the neighbour only where the exact number lies on the edge of two
    assert off.max() <= 1 and (off > 0).mean() < 2e-3
    assert len(np.unique(y)) > 15


def test_filters_are_int8_where_that_has_all_of_them(tmp_path):
    types = [read_model(saved(quantised(w_type=w_type, w0=w0)[0], tmp_path))[0].shape.w_dtype.value
             for w_type, w0 in ((np.int8, 0), (np.uint8, 128), (np.uint8, 127), (np.int8, 1))]
    assert types == ["int8", "int8", "int16", "int16"]


def test_a_relu_that_the_stored_type_does_costs_nothing(tmp_path):
    steps = [str(read_model(saved(quantised(clip=("Relu",), y0=y0)[0], tmp_path))[0].epilogue) for y0 in (0, 1)]
    assert ["clamp" in one for one in steps] == [False, True]


def test_an_image_that_the_model_quantises(tmp_path):
    (layer,) = read_model(saved(quantised(stem=True)[0], tmp_path))
    assert (layer.input, layer.shape.dtype.value) == ("x", "uint8")



def test_dense_layers_stay_floating_point_with_the_filter_in_the_pack(tmp_path, monkeypatch):
    proto, x = quantised(channels=64, outputs=64, groups=1)
    found = read_model(saved(proto, tmp_path))
    (layer,) = found
    assert (layer.input, layer.output, layer.shape.dtype.value, layer.constant) == ("xf", "a", "float32", True)
    held = {one.name: numpy_helper.to_array(one) for one in proto.graph.initializer}
    np.testing.assert_array_equal(layer.arrays().weight, held["w"].astype(np.float32) * held["sw"])
    np.testing.assert_allclose(layer.arrays().bias, held["b"] * held["sb"].astype(float), rtol=1e-6)


def without(proto, change):
    """The model with one thing other than a layer of bytes needs it."""
    nodes = proto.graph.node
    by_name = {one.name: one for one in nodes}
    if change == "another taker of the output":
        proto.graph.output.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, None))
    elif change == "no QuantizeLinear":
        nodes.remove(by_name["q_y"])
        proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("a", TensorProto.FLOAT, None))
    elif change == "a step between that is not clipped":
        by_name["q_y"].input[0] = "t"
        nodes.insert(len(nodes) - 1, node("Sin", ["a"], ["t"]))
    elif change == "scale computed":
        proto.graph.initializer.remove(next(one for one in proto.graph.initializer if one.name == "sy"))
        proto.graph.input.append(helper.make_tensor_value_info("sy", TensorProto.FLOAT, []))
    return proto


@pytest.mark.parametrize("change", ["another taker of the output", "no QuantizeLinear", "scale computed",
                                    "a step between that is not clipped"])
def test_what_is_no_layer_of_bytes_is_one_of_numbers(change, tmp_path):
    (layer,) = read_model(saved(without(quantised()[0], change), tmp_path))
    assert (layer.input, layer.output, layer.shape.dtype.value, layer.constant) == ("xf", "a", "float32", True)


def test_a_filter_scaled_by_its_channels_is_one_of_numbers(tmp_path):
    """ONNX allows scales along any axis; a layer of bytes has one for each filter."""
    proto, _ = quantised(channels=4, outputs=4, groups=1, scales=np.linspace(0.01, 0.05, 4), axis=1)
    (layer,) = read_model(saved(proto, tmp_path))
    held = {one.name: numpy_helper.to_array(one) for one in proto.graph.initializer}
    assert layer.shape.dtype.value == "float32"
    np.testing.assert_array_equal(layer.arrays().weight, held["w"].astype(np.float32) * held["sw"].reshape(1, 4, 1, 1))


def test_an_image_that_several_take_keeps_its_node(tmp_path):
    proto, _ = quantised()
    proto.graph.node.append(node("Neg", ["xf"], ["n"]))
    proto.graph.output.append(helper.make_tensor_value_info("n", TensorProto.FLOAT, None))
    (layer,) = read_model(saved(proto, tmp_path))
    assert layer.input == "x" and "xf" not in layer.inner and "dq_x" not in layer.folded
