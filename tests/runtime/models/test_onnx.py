"""ONNX files: open sizes, data in other files, graphs within graphs, what is left out, and what is no model."""

import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.runtime.models.make import conv, drawn, model, saved
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, FileError, ToolNotFound
from warpconv.runtime.models import onnx as reader
from warpconv.runtime.models.model import names_of
from warpconv.runtime.models.source import read_model

node = helper.make_node
W = drawn(4, 3, 3, 3)


def small(**sizes):
    return model([conv(["x", "w"], pads=[1] * 4)], {"x": [1, 3, 8, 9], **sizes}, ["y"], {"w": W})


# ---- open sizes


@pytest.mark.parametrize("sizes, given, names", [
    (["batch", 3, "height", 9], {"batch": 2, "height": 7}, ["batch", "height"]),
    ([None, 3, 8, None], {"x.0": 2, "x.3": 9}, ["x.0", "x.3"]),
    (["batch", 3, "batch", 9], {"batch": 4}, ["batch"])])
def test_open_sizes_are_asked_for_by_name(sizes, given, names, tmp_path):
    path = saved(small(x=sizes), tmp_path)
    with pytest.raises(ArgumentError, match="leaves sizes open") as error:
        read_model(path)
    assert all(name in str(error.value) and f"--dim {name}=1" in error.value.hint for name in names)
    with pytest.raises(ArgumentError, match="leaves sizes open"):
        read_model(path, dict(list(given.items())[1:]) if len(given) > 1 else None)
    (layer,) = read_model(path, given)
    assert layer.shape.input_shape == tuple(given.get(size, given.get(f"x.{axis}", size)) for axis, size in enumerate(
        sizes))


def test_a_size_that_no_layer_has_may_stay_open(tmp_path):
    (layer,) = read_model(saved(small(other=["n", 5]), tmp_path))
    assert layer.shape.n == 1


def test_sizes_that_a_model_computes_are_followed(tmp_path):
    """As exporters write a flattened or reshaped batch: Shape, Gather, Concat, Reshape."""
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"], axis=0),
             node("Concat", ["n", "rest"], ["to"], axis=0), node("Reshape", ["x", "to"], ["r"]), conv(["r", "w"])]
    proto = model(nodes, {"x": ["batch", 3, 64]}, ["y"],
                  {"w": W, "zero": np.array([0]), "rest": np.array([3, 8, 8])})
    (layer,) = read_model(saved(proto, tmp_path), {"batch": 5})
    assert layer.shape.input_shape == (5, 3, 8, 8)


@pytest.mark.parametrize("given, words", [({"btach": 2}, "no size of this name"), ({"batch": 0}, "at least 1"),
                                          ({"batch": True}, "at least 1"), ({"batch": "2"}, "at least 1")])
def test_sizes_that_cannot_be(given, words, tmp_path):
    with pytest.raises(ArgumentError, match=words):
        read_model(saved(small(x=["batch", 3, 8, 9]), tmp_path), given)


def test_a_layers_file_has_its_own_sizes():
    assert not read_model("twelve_layers").is_model
    for more in ({"dims": {"batch": 1}}, {"dtype": "float16"}, {"layout": "NHWC"}):
        with pytest.raises(ArgumentError, match="for models"):
            read_model("twelve_layers", **more)
    with pytest.raises(ArgumentTypeError):
        read_model(3)


# ---- the graph


def test_a_filter_of_a_node_or_a_copy_is_the_models_own(tmp_path):
    nodes = [node("Constant", [], ["v"], value=numpy_helper.from_array(W)), node("Identity", ["v"], ["u"]),
             conv(["x", "u"])]
    proto = model(nodes, {"x": [1, 3, 8, 9]}, ["y"], {})
    np.testing.assert_array_equal(read_model(saved(proto, tmp_path))[0].arrays().weight, W)


def test_a_filter_that_the_model_computes_is_the_callers(tmp_path):
    proto = model([node("Mul", ["w", "a"], ["v"]), conv(["x", "v"])], {"x": [1, 3, 8, 9], "a": [1]}, ["y"], {"w": W})
    (layer,) = read_model(saved(proto, tmp_path))
    assert not layer.constant and layer.shape.k == 4
    with pytest.raises(ArgumentError, match="does not hold"):
        layer.arrays()


def test_graphs_within_the_graph(tmp_path):
    """Both branches of an If have layers; a value that a branch takes from outside is not folded away."""
    def branch(name, weight):
        return helper.make_graph([conv(["c", weight], f"{name}_y")], name, [], [
            helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(drawn(2, 4, 1, 1), weight)])

    nodes = [conv(["x", "w"], "c"), node("Relu", ["c"], ["r"]),
             node("If", ["which"], ["y"], name="choice", then_branch=branch("then", "a"),
                  else_branch=branch("else", "b"))]
    proto = model(nodes, {"x": [1, 3, 8, 9], "which": (TensorProto.BOOL, [])}, ["y", "r"], {"w": W})
    found = read_model(saved(proto, tmp_path))
    assert {layer.node for layer in found} == {"/Conv/c", "choice//Conv/then_y", "choice//Conv/else_y"}
    assert found[0].folded == () and found["choice//Conv/then_y"].shape.input_shape == (1, 4, 6, 7)
    assert found["choice//Conv/then_y"].arrays().weight.shape == (2, 4, 1, 1)


def test_local_functions_are_looked_into(tmp_path):
    body = helper.make_function("mine", "block", ["x", "w"], ["y"], [conv(["x", "w"]), node("Relu", ["y"], ["z"])][:1],
                                [helper.make_opsetid("", 20)])
    proto = model([node("block", ["x", "w"], ["y"], domain="mine", name="first")], {"x": [1, 3, 8, 9]}, ["y"], {"w": W},
                  functions=[body])
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    (layer,) = read_model(saved(proto, tmp_path))
    assert layer.shape.input_shape == (1, 3, 8, 9) and layer.constant


def test_names(tmp_path):
    assert names_of(["/a/b", "a_b", "a:b", "", "...", "1", "ü"]) == ["a_b", "a_b_2", "a_b_3", "layer", "layer_2", "1",
                                                                     "layer_3"]
    long = names_of(["x" * 300 + "/conv", "y" + "x" * 300 + "/conv"])
    assert len(set(long)) == 2 and all(len(name) <= 80 and name.endswith("_conv") for name in long)
    nodes = [conv(["x", "w"], "a"), conv(["x", "w"], "b")]
    nodes[0].name = nodes[1].name = ""
    found = read_model(saved(model(nodes, {"x": [1, 3, 8, 9]}, ["a", "b"], {"w": W}), tmp_path))
    assert [layer.name for layer in found] == ["a", "b"] and found["b"] is found[1] and found[-1] is found[1]
    assert len(found[:1]) == 1
    with pytest.raises(ArgumentError, match="no such layer"):
        found["c"]


@pytest.mark.parametrize("what", ["type", "domain", "rank", "unknown"])
def test_what_is_left_out(what, tmp_path):
    if what == "type":
        proto = model([conv(["x", "w"])], {"x": [1, 3, 8, 9]}, ["y"], {"w": W.astype(np.float64)}, TensorProto.DOUBLE)
        words = "float64"
    elif what == "domain":
        proto = model([node("FusedConv", ["x", "w"], ["y"], domain="com.microsoft", name="n")], {"x": [1, 3, 8, 9]},
                      ["y"], {"w": W})
        proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        words = "com.microsoft.FusedConv"
    elif what == "rank":
        proto, words = model([conv(["x", "w"])], {"x": [1, 3, 8]}, ["y"], {"w": W}), "not known|axes"
    else:
        proto = model([node("Odd", ["x"], ["z"], domain="theirs"), conv(["z", "w"])], {"x": [1, 3, 8, 9]}, ["y"],
                      {"w": W})
        proto.opset_import.append(helper.make_opsetid("theirs", 1))
        words = "not known"
    found = read_model(saved(proto, tmp_path))
    (left,) = found.left_out
    assert len(found) == 0
    import re
    assert re.search(words, left.reason), left.reason


# ---- data in other files


def external(folder, name="weights.bin"):
    proto = small()
    onnx.save(proto, folder / "model.onnx", save_as_external_data=True, all_tensors_to_one_file=True, location=name,
              size_threshold=0)
    return str(folder / "model.onnx")


def test_external_data_are_read_when_they_are_asked_for_and_let_go(tmp_path, monkeypatch):
    path = external(tmp_path)
    hidden = (tmp_path / "weights.bin").rename(tmp_path / "elsewhere")
    (layer,) = read_model(path)                 # nothing of them is needed to learn the layers
    assert layer.shape.k == 4 and layer.constant
    with pytest.raises(FileError, match="cannot be read"):
        layer.arrays()
    hidden.rename(tmp_path / "weights.bin")
    (layer,) = read_model(path)
    np.testing.assert_array_equal(layer.arrays().weight, W)
    store = layer.read.__closure__              # the model's own tensor stays without its data
    graph = next(cell.cell_contents for cell in store if hasattr(cell.cell_contents, "constants"))
    assert graph.constants._held["w"].source.raw_data == b""


@pytest.mark.parametrize("place", ["../secret.bin", "/etc/hostname"])
def test_external_data_outside_the_folder_are_refused(place, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.bin").write_bytes(W.tobytes())
    path = external(tmp_path / "in")
    proto = onnx.load(path, load_external_data=False)
    for entry in proto.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = place
    (layer,) = read_model(saved(proto, tmp_path / "in"))
    with pytest.raises(FileError, match="cannot be read"):
        layer.arrays()


def test_external_data_that_are_too_short(tmp_path):
    path = external(tmp_path)
    (tmp_path / "weights.bin").write_bytes(W.tobytes()[:50])
    with pytest.raises(FileError, match="cannot be read"):
        read_model(path)[0].arrays()


# ---- what is no model


@pytest.mark.parametrize("data", [b"", b"no model at all", b"\x08\x09", b"\xff" * 400])
def test_a_file_that_is_no_model(data, tmp_path):
    (tmp_path / "bad.onnx").write_bytes(data)
    with pytest.raises(FileError, match="no ONNX model|cannot be"):
        read_model(tmp_path / "bad.onnx")


def test_damaged_files_end_in_an_error_of_ours_or_in_layers(tmp_path):
    """Cut, and changed at drawn places."""
    whole, draw = small().SerializeToString(), random.Random(4)
    path = tmp_path / "bad.onnx"
    for _ in range(150):
        data = bytearray(whole[:draw.randrange(len(whole))] if draw.random() < 0.3 else whole)
        for _ in range(draw.randrange(1, 4)):
            if data:
                data[draw.randrange(min(len(data), 260) if draw.random() < 0.7 else len(data))] = draw.randrange(256)
        path.write_bytes(data)
        try:
            for layer in read_model(path):
                layer.arrays()
        except (FileError, ArgumentError):
            pass


def test_nothing_there_a_folder_and_no_package(tmp_path, monkeypatch):
    with pytest.raises(FileError, match="no such file"):
        read_model(tmp_path / "none.onnx")
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(FileError, match="cannot be read"):
        read_model(tmp_path / "folder.onnx")
    import sys
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ToolNotFound, match=r"pip install 'warpconv\[onnx\]'"):
        reader.read_onnx(tmp_path / "none.onnx")
