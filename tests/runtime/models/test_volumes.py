"""Conv with three spatial axes: read, folded, explained, and served from a pack."""

from __future__ import annotations

import json

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.api.test_cli import good, run
from tests.runtime.call.test_transposed import exact as spread
from tests.runtime.models.make import conv, drawn, evaluated, model, pack_of, saved
from warpconv.runtime.models.source import read_model
from warpconv.runtime.pack.pack import open_pack

X = [2, 3, 5, 7, 6]


def network():
    """Two convolutions: a norm and a relu behind the first, a residual behind the second."""
    node = helper.make_node
    nodes = [conv(["x", "w"], "a", pads=[1, 1, 0, 1, 1, 2]),
             node("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], ["n"], epsilon=1e-3),
             node("Relu", ["n"], ["r"]),
             conv(["r", "v", "b"], "c", group=2, dilations=[2, 1, 1], pads=[2, 1, 0, 2, 0, 0]),
             node("Add", ["c", "r"], ["y"])]
    constants = {"w": drawn(4, 3, 3, 3, 3), "v": drawn(4, 2, 3, 2, 1), "b": drawn(4), "scale": drawn(4),
                 "shift": drawn(4), "mean": drawn(4), "variance": np.abs(drawn(4)) + 0.5}
    return model(nodes, {"x": X}, ["y", "r"], constants)


@pytest.mark.thin(2)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_network_from_its_pack(tmp_path, monkeypatch, layout):
    proto, x = network(), drawn(*X)
    found = read_model(saved(proto, tmp_path), layout=layout)
    assert found.left_out == () and [layer.axes for layer in found] == [3, 3]
    assert [",".join(step.value for step in layer.epilogue) for layer in found] == ["bias,relu", "bias,residual"]
    pack = pack_of(found, tmp_path / "pack.zip", monkeypatch)
    assert pack.nodes()["Conv_a"].axes == 3 and pack.conv("/Conv/a").array("weight").shape == (4, 3, 3, 3, 3)
    first, second = (pack.conv(name, device="cpu") for name in ("/Conv/a", "/Conv/c"))
    assert first.shape.layout.value == layout
    wanted, between = evaluated(proto, {"x": x})
    r = first(x)
    np.testing.assert_allclose(r, between, rtol=0, atol=1e-5 * np.abs(between).max())
    y = second(r, residual=r)
    np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_the_command_line_takes_the_model(tmp_path):
    path = saved(network(), tmp_path)
    record = json.loads(good("explain", path, "--json"))
    assert [(row["algorithm"], row["kind"]) for row in record["layers"]] == [
        ("volume", "3x3x3"), ("volume", "grouped 3x2x1")]
    assert "2 built" in good("build", path, "--arch", "sm_90", "--weights", "-o", tmp_path / "pack")
    assert open_pack(tmp_path / "pack").conv("/Conv/c").holds("bias")


@pytest.mark.parametrize("attributes, wanted", [
    ({}, ((1, 1, 1), (0, 0, 0), (0, 0, 0), 1, (1, 1, 1))),
    ({"group": 2, "strides": [2, 1, 2], "pads": [1, 0, 1, 1, 0, 1], "output_padding": [1, 0, 1]},
     ((2, 1, 2), (1, 0, 1), (1, 0, 1), 2, (1, 1, 1)))])
def test_a_transposed_layer_from_its_pack(tmp_path, monkeypatch, attributes, wanted):
    """Against products spread in float64: onnx's own evaluator has this for images alone."""
    x, w, b = drawn(2, 4, 3, 5, 4), drawn(4, 3, 2, 3, 3), drawn(3 * attributes.get("group", 1))
    proto = model([conv(["x", "w", "b"], op="ConvTranspose", **attributes)], {"x": list(x.shape)}, ["y"],
                  {"w": w, "b": b})
    served = pack_of(read_model(saved(proto, tmp_path)), tmp_path / "pack", monkeypatch).conv("/ConvTranspose/y",
                                                                                            device="cpu")
    exact = spread(x, w, b.astype(np.float64), *wanted)
    assert served.transposed
    np.testing.assert_allclose(served(x), exact, rtol=0, atol=1e-5 * np.abs(exact).max())


def test_quantised_volumes_are_left_out(tmp_path):
    proto = model([conv(["x", "w"], op="ConvInteger")], {"x": (TensorProto.UINT8, X)}, ["y"],
                  {"w": drawn(4, 3, 3, 3, 3, dtype=np.int8)}, out=TensorProto.INT32)
    path = saved(proto, tmp_path)
    (left,) = read_model(path).left_out
    assert "3 spatial axes; there are kernels of a ConvInteger for one and two" in left.reason
    assert run("explain", path).exit_code == 1
