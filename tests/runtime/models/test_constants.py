"""Constants that a model computes of constants, as exporters and quantisers leave filters."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.runtime.models.make import conv, drawn, model, saved
from warpconv.codegen.errors import FileError
from warpconv.runtime.models.source import read_model

node = helper.make_node
X = {"x": [1, 3, 8, 9]}
W = drawn(4, 3, 3, 3)


def weight_of(nodes, held, tmp_path, **more):
    proto = model([*nodes, conv(["x", "v"])], X, ["y"], held, **more)
    (layer,) = read_model(saved(proto, tmp_path))
    assert layer.shape.weight_shape == (4, 3, 3, 3)
    return layer.arrays().weight


def test_filters_of_another_type(tmp_path):
    half = W.astype(np.float16)
    found = weight_of([node("Cast", ["w"], ["v"], to=TensorProto.FLOAT)], {"w": half}, tmp_path)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, half.astype(np.float32))


def test_filters_in_another_order(tmp_path):
    """Height, width, channels, filters, as TensorFlow has them, by way of a shape of its own."""
    held = {"w": np.ascontiguousarray(W.transpose(2, 3, 1, 0)), "flat": np.array([9, 12], np.int64),
            "whole": np.array([3, 3, 3, 4], np.int64)}
    nodes = [node("Reshape", ["w", "flat"], ["a"]), node("Reshape", ["a", "whole"], ["b"]),
             node("Transpose", ["b"], ["v"], perm=[3, 2, 0, 1])]
    np.testing.assert_array_equal(weight_of(nodes, held, tmp_path), W)


@pytest.mark.parametrize("opset", [13, 21])
def test_filters_quantised_in_training(opset, tmp_path):
    """Floating-point numbers that are quantised and made numbers again, with a scale for each filter."""
    scales = np.abs(W).reshape(4, -1).max(1) / 127
    held = {"w": W, "s": scales.astype(np.float32), "z": np.zeros(4, np.int8)}
    nodes = [node("QuantizeLinear", ["w", "s", "z"], ["q"], axis=0),
             node("DequantizeLinear", ["q", "s", "z"], ["v"], axis=0)]
    found = weight_of(nodes, held, tmp_path, opset=opset)
    by = held["s"].astype(np.float64).reshape(4, 1, 1, 1)
    np.testing.assert_allclose(found, np.clip(np.rint(W / by), -128, 127) * by, rtol=1e-6)
    assert not np.array_equal(found, W)


def test_parts_of_a_normalisation(tmp_path):
    """x * (scale / sqrt(variance + epsilon)), of constants, is a step that the filter takes up."""
    held = {"w": W, "variance": np.float32([1, 4, 9, 16]).reshape(1, 4, 1, 1), "e": np.float32(0), "one": np.float32(1)}
    nodes = [conv(["x", "w"], "a"), node("Add", ["variance", "e"], ["ve"]), node("Sqrt", ["ve"], ["r"]),
             node("Div", ["one", "r"], ["m"]), node("Mul", ["a", "m"], ["y"])]
    (layer,) = read_model(saved(model(nodes, X, ["y"], held), tmp_path))
    assert layer.output == "y"
    np.testing.assert_allclose(layer.arrays().weight, W / np.float32([1, 2, 3, 4]).reshape(4, 1, 1, 1), rtol=1e-6)


def test_what_an_input_has_part_in_is_the_callers(tmp_path):
    proto = model([node("Mul", ["w", "a"], ["v"]), conv(["x", "v"])], {**X, "a": [1]}, ["y"], {"w": W})
    (layer,) = read_model(saved(proto, tmp_path))
    assert not layer.constant


def test_a_constant_that_cannot_be_computed_is_told(tmp_path):
    proto = model([node("DequantizeLinear", ["w", "s"], ["v"], axis=7), conv(["x", "v"])], X, ["y"],
                  {"w": np.ones((4, 3, 3, 3), np.int8), "s": np.ones(4, np.float32)})
    (layer,) = read_model(saved(proto, tmp_path))
    with pytest.raises(FileError, match="the constant 'v', a DequantizeLinear, cannot be computed"):
        layer.arrays()


def test_branches_have_names_of_their_own(tmp_path):
    """Both branches of an If call their filter "w"."""
    def branch(name, weight):
        made = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)
        return helper.make_graph([conv(["x", "w"], f"{name}_y")], name, [], [made],
                                 [numpy_helper.from_array(weight, "w")])

    one, other = drawn(4, 3, 3, 3), drawn(2, 3, 1, 1)
    proto = model([node("If", ["which"], ["y"], name="choice", then_branch=branch("then", one),
                        else_branch=branch("else", other))], {**X, "which": (TensorProto.BOOL, [])}, ["y"], {})
    found = read_model(saved(proto, tmp_path))
    np.testing.assert_array_equal(found["choice//Conv/then_y"].arrays().weight, one)
    np.testing.assert_array_equal(found["choice//Conv/else_y"].arrays().weight, other)
