"""A Pad before a Conv: a border of the layer."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.runtime.models.make import conv, drawn, evaluated, model, pack_of, saved
from warpconv.runtime.models.source import read_model

node = helper.make_node
INT = np.int64


def padded(pads, mode="constant", value=None, axes=None, opset=20, channels=4, image=(9, 10), attribute=False, **more):
    """Pad, Conv, Relu of a depthwise layer."""
    held = {"w": drawn(channels, 1, *[3] * len(image)), "p": np.array(pads, INT)}
    names = ["x", "p", "", ""]
    if value is not None:
        held["v"], names[2] = np.float32(value), "v"
    if axes is not None:
        held["a"], names[3] = np.array(axes, INT), "a"
    while not names[-1]:
        names.pop()
    if attribute:
        pad = node("Pad", ["x"], ["xp"], name="pad", pads=pads, mode=mode)
    else:
        pad = node("Pad", names, ["xp"], name="pad", mode=mode)
    nodes = [pad, conv(["xp", "w"], "c", group=channels, **more), node("Relu", ["c"], ["y"], name="relu")]
    return model(nodes, {"x": [2, channels, *image]}, ["y"], held, opset=opset), drawn(2, channels, *image)


CASES = {
    "zeros": ({"pads": [0, 0, 1, 2, 0, 0, 3, 0]}, ((1, 3), (2, 0)), "zeros"),
    "zeros beside the layer's own": ({"pads": [0, 0, 1, 2, 0, 0, 3, 0], "pads_": [1, 1, 1, 1]}, ((2, 4), (3, 1)),
                                     "zeros"),
    "zeros before a stride": ({"pads": [0, 0, 0, 0, 0, 0, 1, 1], "strides": [2, 2]}, ((0, 1), (0, 1)), "zeros"),
    "a value": ({"pads": [0, 0, 1, 1, 0, 0, 1, 1], "value": 2.5}, ((1, 1), (1, 1)), "constant"),
    "reflect": ({"pads": [0, 0, 2, 1, 0, 0, 1, 2], "mode": "reflect"}, ((2, 1), (1, 2)), "reflect"),
    "edge": ({"pads": [0, 0, 2, 1, 0, 0, 1, 2], "mode": "edge"}, ((2, 1), (1, 2)), "replicate"),
    "wrap": ({"pads": [0, 0, 2, 1, 0, 0, 1, 2], "mode": "wrap"}, ((2, 1), (1, 2)), "circular"),
    "of some axes": ({"pads": [1, 2, 2, 1], "axes": [-1, 2], "mode": "edge"}, ((2, 1), (1, 2)), "replicate"),
    "of one axis": ({"pads": [0, 0, 2, 0, 0, 1], "image": (17,)}, ((0, 0), (2, 1)), "zeros"),
}


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", CASES)
def test_a_border_of_the_layer(name, tmp_path, monkeypatch):
    options, padding, mode = CASES[name]
    options = dict(options)
    if "pads_" in options:
        own = options.pop("pads_")
        proto, x = padded(options.pop("pads"), **options)
        proto.graph.node[1].attribute.append(helper.make_attribute("pads", own))
    else:
        proto, x = padded(**options)
    found = read_model(saved(proto, tmp_path))
    (layer,) = found
    assert (layer.input, layer.output, layer.folded) == ("x", "y", ("pad", "relu"))
    assert (layer.shape.padding, layer.shape.padding_mode.value) == (padding, mode) and "xp" in layer.inner
    y = pack_of(found, tmp_path / "pack", monkeypatch).conv("/Conv/c", device="cpu")(x)
    np.testing.assert_allclose(y, evaluated(proto, {"x": x})[0], atol=1e-5)


@pytest.mark.parametrize("options, computed", [
    ({"pads": [0, 1, 1, 1, 0, 0, 1, 1]}, None), ({"pads": [0, 0, -1, 1, 0, 0, 1, 1]}, None),
    ({"pads": [0, 0, 1, 1, 0, 0, 1, 1], "mode": "edge", "pads_": [1] * 4}, None),
    ({"pads": [0, 0, 1, 1, 0, 0, 1, 1], "value": 1.0, "auto_pad": "SAME_UPPER"}, None),
    ({"pads": [0, 0, 1, 1, 0, 0, 1, 1], "value": 1.0}, "v")], ids=["channels", "cut", "both", "auto_pad", "computed"])
def test_what_is_no_border_stays_a_node(options, computed, tmp_path):
    options = dict(options)
    own = options.pop("pads_", None)
    proto, _ = padded(**options)
    if own:
        proto.graph.node[1].attribute.append(helper.make_attribute("pads", own))
    if computed:
        proto.graph.initializer.remove(next(one for one in proto.graph.initializer if one.name == computed))
        proto.graph.input.append(helper.make_tensor_value_info(computed, TensorProto.FLOAT, []))
    found = read_model(saved(proto, tmp_path))
    assert [layer.input for layer in found] == ["xp"] or found.left_out


def test_a_padded_array_that_others_take_keeps_its_node(tmp_path):
    proto, _ = padded([0, 0, 1, 1, 0, 0, 1, 1])
    proto.graph.output.append(helper.make_tensor_value_info("xp", TensorProto.FLOAT, None))
    (layer,) = read_model(saved(proto, tmp_path))
    assert layer.input == "x" and layer.folded == ("relu",) and "xp" not in layer.inner
