"""Every attribute of a convolution as a layer's sizes: against onnx's own inference and, in float64, its evaluator."""

import numpy as np
import pytest

from tests.runtime.models.make import conv, drawn, evaluated, model, pack_of, saved
from warpconv.codegen.spec import Operation
from warpconv.runtime.accuracy.reference import reference
from warpconv.runtime.models.source import read_model

# op, input, filter, attributes
CASES = {
    "one pixel": ("Conv", (1, 5, 1, 1), (7, 5, 1, 1), {}),
    "plain": ("Conv", (2, 3, 8, 9), (4, 3, 3, 3), {}),
    "kernel_shape": ("Conv", (1, 3, 8, 9), (4, 3, 3, 2), {"kernel_shape": [3, 2]}),
    "pads": ("Conv", (1, 2, 7, 8), (3, 2, 3, 3), {"pads": [1, 0, 2, 3]}),
    "strides": ("Conv", (1, 2, 9, 8), (3, 2, 3, 2), {"strides": [2, 3], "pads": [1, 1, 1, 1]}),
    "dilations": ("Conv", (1, 2, 11, 9), (3, 2, 3, 2), {"dilations": [2, 3], "pads": [2, 0, 1, 3]}),
    "groups": ("Conv", (1, 6, 7, 6), (4, 3, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
    "depthwise": ("Conv", (2, 4, 7, 6), (8, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
    "same_upper": ("Conv", (1, 2, 7, 8), (3, 2, 4, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 1]}),
    "same_lower": ("Conv", (1, 2, 7, 8), (3, 2, 4, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 3]}),
    "valid": ("Conv", (1, 2, 7, 8), (3, 2, 4, 3), {"auto_pad": "VALID", "strides": [2, 3]}),
    "notset": ("Conv", (1, 2, 7, 8), (3, 2, 4, 3), {"auto_pad": "NOTSET", "pads": [2, 1, 1, 0]}),
    "line": ("Conv", (2, 3, 17), (4, 3, 5), {"pads": [2, 1], "strides": [2]}),
    "line same": ("Conv", (2, 3, 17), (4, 3, 4), {"auto_pad": "SAME_UPPER", "dilations": [1]}),
    "volume": ("Conv", (2, 3, 5, 7, 6), (4, 3, 3, 2, 3), {"pads": [1, 0, 2, 0, 1, 1], "strides": [1, 2, 1]}),
    "volume dilated": ("Conv", (1, 4, 7, 6, 8), (8, 1, 3, 2, 3), {"group": 4, "dilations": [2, 1, 2],
                                                                  "pads": [1, 1, 1, 1, 1, 1]}),
    "volume same": ("Conv", (1, 2, 5, 6, 7), (3, 2, 2, 3, 4), {"auto_pad": "SAME_LOWER", "strides": [2, 1, 1]}),
    "transposed": ("ConvTranspose", (1, 3, 5, 4), (3, 2, 3, 3), {}),
    "transposed stride": ("ConvTranspose", (2, 3, 5, 4), (3, 2, 3, 2), {"strides": [2, 3], "pads": [1, 0, 1, 1]}),
    "transposed more": ("ConvTranspose", (1, 3, 5, 4), (3, 2, 3, 3),
                        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    "transposed shape": ("ConvTranspose", (1, 3, 5, 4), (3, 2, 3, 3), {"strides": [2, 2], "output_shape": [10, 8]}),
    "transposed groups": ("ConvTranspose", (1, 4, 5, 4), (4, 3, 3, 3), {"group": 2, "dilations": [2, 1]}),
    "transposed line": ("ConvTranspose", (2, 3, 9), (3, 2, 4), {"strides": [3]}),
}
# what onnx's evaluator computes wrongly or not at all, said in other attributes (as ONNX Runtime 1.32 computes it)
EXPLICIT = {"transposed shape": {"strides": [2, 2], "pads": [1, 1, 0, 0]},
            "transposed groups": {"group": "dense", "dilations": [2, 1]}}


def dense(weight, groups):
    """A transposed filter of groups as one of none: zeros where a group does not reach."""
    inputs, outputs = weight.shape[0] // groups, weight.shape[1]
    made = np.zeros((weight.shape[0], outputs * groups, *weight.shape[2:]), weight.dtype)
    for group in range(groups):
        rows = slice(group * inputs, (group + 1) * inputs)
        made[rows, group * outputs:(group + 1) * outputs] = weight[rows]
    return made


def made(name, attributes=None):
    op, x, w, own = CASES[name]
    attributes = own if attributes is None else attributes
    k = w[0] if op == "Conv" else w[1] * own.get("group", 1)
    rng = np.random.default_rng(len(name))
    weight, bias = rng.standard_normal(w).astype("f"), rng.standard_normal(k).astype("f")
    if attributes.get("group") == "dense":
        weight, attributes = dense(weight, own["group"]), {**attributes, "group": 1}
    return model([conv(["x", "w", "b"], op=op, **attributes)], {"x": list(x)}, ["y"], {"w": weight, "b": bias})


def computed(layer, x):
    """A layer in float64: the library's reference of a forward layer; of a transposed one each input's filter, added
    where its outputs lie."""
    given, line = layer.arrays(), x.ndim == 3
    x = x[:, :, None] if line else x
    if layer.operation is Operation.FORWARD:
        y = reference(x, given.weight, layer.shape, bias=given.bias, epilogue=layer.epilogue).output
    else:
        y = scattered(x, given.weight, layer.shape) + given.bias[:, None, None]
    return y[:, :, 0] if line else y


def scattered(x, w, shape):
    (top, bottom), (left, right) = shape.padding
    y = np.zeros((shape.n, shape.c, shape.h + top + bottom + 64, shape.w + left + right + 64))
    each, whole = shape.filters, shape.channels
    for group in range(shape.groups):
        source = x[:, group * each:(group + 1) * each].astype(np.float64)
        taps = w[group * each:(group + 1) * each].astype(np.float64)
        for r in range(shape.r):
            for s in range(shape.s):
                row, column = r * shape.dilation[0], s * shape.dilation[1]
                part = np.einsum("nkpq,kc->ncpq", source, taps[:, :, r, s])
                y[:, group * whole:(group + 1) * whole, row:row + shape.stride[0] * shape.p:shape.stride[0],
                  column:column + shape.stride[1] * shape.q:shape.stride[1]] += part
    return y[:, :, top:top + shape.h, left:left + shape.w]


@pytest.mark.parametrize("name", CASES)
def test_the_layer_is_what_onnx_computes(name, tmp_path):
    proto, x = made(name), drawn(*CASES[name][1])
    (exact,) = evaluated(made(name, EXPLICIT.get(name)), {"x": x})
    (layer,) = found = read_model(saved(proto, tmp_path))
    assert found.left_out == () and layer.node == f"/{CASES[name][0]}/y" and layer.axes == x.ndim - 2
    ours = computed(layer, x)
    assert ours.shape == exact.shape
    np.testing.assert_allclose(ours, exact, rtol=0, atol=1e-12 * np.abs(exact).max())


@pytest.mark.thin(14)
@pytest.mark.parametrize("name", CASES)
def test_a_pack_serves_it(name, tmp_path, monkeypatch):
    proto, x = made(name), drawn(*CASES[name][1])
    (exact,) = evaluated(made(name, EXPLICIT.get(name)), {"x": x})
    pack = pack_of(read_model(saved(proto, tmp_path)), tmp_path / "pack", monkeypatch)
    served = pack.conv(f"/{CASES[name][0]}/y", device="cpu")
    assert served.transposed == (CASES[name][0] == "ConvTranspose")
    y = served(x)
    assert y.shape == exact.shape and y.dtype == np.float32
    np.testing.assert_allclose(y, exact, rtol=0, atol=1e-5 * np.abs(exact).max())
    twice = np.concatenate([x, x])                              # another batch, the same kernel; into an array of mine
    out = np.empty((2 * exact.shape[0], *exact.shape[1:]), "f")
    assert np.shares_memory(served(twice, out=out), out)
    np.testing.assert_array_equal(out, np.concatenate([y, y]))


LEFT = {
    "4 spatial axes": ("Conv", (1, 2, 5, 5, 5, 5), (3, 2, 3, 3, 3, 3), {}),
    "cut": ("Conv", (1, 2, 7, 8), (3, 2, 3, 3), {"pads": [-1, 0, 0, 0]}),
    "empty output": ("Conv", (1, 2, 3, 3), (3, 2, 5, 5), {}),
    "channels": ("Conv", (1, 3, 8, 8), (3, 2, 3, 3), {}),
    "auto_pad": ("Conv", (1, 2, 8, 8), (3, 2, 3, 3), {"auto_pad": "SAME_MIDDLE"}),
    "kernel_shape": ("Conv", (1, 2, 8, 8), (3, 2, 3, 3), {"kernel_shape": [5, 5]}),
    "output_shape": ("ConvTranspose", (1, 3, 5, 4), (3, 2, 3, 3), {"output_shape": [100, 100]}),
    "DeformConv": ("DeformConv", (1, 2, 7, 8), (3, 2, 3, 3), {}),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_no_kernel_serves_is_told(name, tmp_path):
    op, x, w, attributes = LEFT[name]
    proto = model([conv(["x", "w"], op=op, **attributes)], {"x": list(x)}, ["y"], {"w": drawn(*w)})
    found = read_model(saved(proto, tmp_path))
    assert len(found) == 0 and found.left_out[0].node == f"/{op}/y" and found.left_out[0].op == op
    assert {"4 spatial axes": "4 spatial axes",
            "cut": "cut", "empty output": "empty output", "channels": "channels",
            "auto_pad": "SAME_MIDDLE", "kernel_shape": "kernel_shape", "output_shape": "output_shape",
            "DeformConv": "no kernels"}[name] in found.left_out[0].reason


@pytest.mark.parametrize("op, sizes", [("Conv", (3,)), ("Conv", (4, 1)), ("ConvTranspose", (4,))])
def test_a_bias_of_other_sizes_is_left_out(op, sizes, tmp_path):
    """The layer has 4 outputs, transposed 6; a file may hold any bias."""
    w = (4, 6, 3, 3)
    proto = model([conv(["x", "w", "b"], op=op)], {"x": [1, 6 if op == "Conv" else 4, 8, 8]}, ["y"],
                  {"w": drawn(*w), "b": drawn(*sizes)})
    (left,) = read_model(saved(proto, tmp_path)).left_out
    assert left.reason == f"its bias has sizes {list(sizes)}, not [{4 if op == 'Conv' else 6}]"
