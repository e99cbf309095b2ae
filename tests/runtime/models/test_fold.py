"""What follows a convolution: folded where nobody else sees the value between, and then the same numbers."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.runtime.models.make import conv, drawn, evaluated, model, pack_of, saved
from warpconv.codegen.spec import Operation
from warpconv.runtime.accuracy.reference import reference
from warpconv.runtime.models.source import read_model

X, K = [2, 4, 7, 6], 5
node = helper.make_node


def norm(x, y):
    return node("BatchNormalization", [x, "scale", "shift", "mean", "variance"], [y], epsilon=1e-3)


def by_erf(root):
    return [node("Div", ["c", root], ["d"]), node("Erf", ["d"], ["e"]), node("Add", ["e", "one"], ["a"]),
            node("Mul", ["c", "a"], ["m"]), node("Mul", ["m", "half"], ["y"])]


MISH = "expr(v * tanh(where(v > 20.0, v, log(1.0 + exp(v)))))"
# nodes after the convolution (of w and, where it says so, b) -> the epilogue, and how many nodes are folded
CASES = {
    "relu": (["b"], [node("Relu", ["c"], ["y"])], "bias,relu", 1),
    "norm": ([], [norm("c", "y")], "bias", 1),
    "norm relu": (["b"], [norm("c", "n"), node("Relu", ["n"], ["y"])], "bias,relu", 2),
    "clip": ([], [node("Clip", ["c", "low", "high"], ["y"])], "clamp(-0.5,1.5)", 1),
    "clip below": ([], [node("Clip", ["c", "zero"], ["y"])], "relu", 1),
    "clip six": (["b"], [node("Clip", ["c", "zero", "six"], ["y"])], "bias,relu6", 1),
    "leaky": (["b"], [node("LeakyRelu", ["c"], ["y"], alpha=0.25)], "bias,expr(where(v < 0.0, 0.25 * v, v))", 1),
    "hardswish": ([], [node("HardSwish", ["c"], ["y"])], "hardswish", 1),
    "gelu": ([], [node("Gelu", ["c"], ["y"])], "gelu", 1),
    "gelu tanh": ([], [node("Gelu", ["c"], ["y"], approximate="tanh")], "gelu_tanh", 1),
    "silu": ([], [node("Sigmoid", ["c"], ["s"]), node("Mul", ["s", "c"], ["y"])], "silu", 2),
    "mish": ([], [node("Softplus", ["c"], ["s"]), node("Tanh", ["s"], ["t"]), node("Mul", ["c", "t"], ["y"])], MISH, 3),
    "hardswish of two": (["b"], [node("HardSigmoid", ["c"], ["s"], alpha=1 / 6), node("Mul", ["c", "s"], ["y"])],
                         "bias,hardswish", 2),
    "hardswish of four": ([], [node("Add", ["c", "three"], ["a"]), node("Clip", ["a", "zero", "six"], ["l"]),
                               node("Div", ["l", "six"], ["s"]), node("Mul", ["c", "s"], ["y"])], "hardswish", 4),
    "gelu of five": (["b"], by_erf("root"), "bias,gelu", 5),
    "not quite gelu": ([], by_erf("six"), "", 0),
    "not quite hardswish": ([], [node("HardSigmoid", ["c"], ["s"]), node("Mul", ["c", "s"], ["y"])], "", 0),
    "a gate that is seen": ([], [node("Sigmoid", ["c"], ["s"]), node("Mul", ["s", "c"], ["m"]),
                                 node("Add", ["m", "s"], ["y"])], "", 0),
    "sigmoid": (["b"], [node("Sigmoid", ["c"], ["y"])], "bias,expr(sigmoid(v))", 1),
    "tanh": ([], [node("Tanh", ["c"], ["y"])], "expr(tanh(v))", 1),
    "softplus": ([], [node("Softplus", ["c"], ["y"])], "expr(where(v > 20.0, v, log(1.0 + exp(v))))", 1),
    "mish of one": ([], [node("Mish", ["c"], ["y"])], MISH, 1),
    "elu": (["b"], [node("Elu", ["c"], ["y"], alpha=0.5)], "bias,expr(where(v < 0.0, 0.5 * (exp(v) - 1.0), v))", 1),
    "hard sigmoid": ([], [node("HardSigmoid", ["c"], ["y"], alpha=0.25)], "expr(min(max(0.25 * v + 0.5, 0.0), 1.0))",
                     1),
    "prelu": (["b"], [node("PRelu", ["c", "half"], ["y"])], "bias,expr(where(v < 0.0, 0.5 * v, v))", 1),
    "prelu of channels": ([], [node("PRelu", ["c", "slopes"], ["y"])], "", 0),
    "residual": (["b"], [node("Add", ["c", "r"], ["y"])], "bias,residual", 1),
    "residual relu": ([], [node("Add", ["r", "c"], ["a"]), node("Relu", ["a"], ["y"])], "residual,relu", 2),
    "relu residual": (["b"], [node("Relu", ["c"], ["a"]), node("Add", ["a", "r"], ["y"])], "bias,relu,residual", 2),
    "constant": ([], [node("Add", ["c", "column"], ["y"])], "bias", 1),
    "scaled": (["b"], [node("Mul", ["column", "c"], ["m"]), node("Add", ["m", "half"], ["y"])], "bias", 2),
    "norm after relu": (["b"], [node("Relu", ["c"], ["a"]), norm("a", "y")], "bias,relu", 1),
    "pixel": ([], [node("Add", ["c", "row"], ["y"])], "", 0),
    "twice": ([], [node("Add", ["c", "c"], ["y"])], "", 0),
    "two takers": ([], [node("Relu", ["c"], ["a"]), node("Add", ["a", "c"], ["y"])], "", 0),
    "not after": ([], [node("Sin", ["c"], ["y"])], "", 0),
    "other sizes": ([], [node("Add", ["c", "small"], ["y"])], "", 0),
    "computed clip": ([], [node("Clip", ["c", "given"], ["y"])], "", 0),
}


def made(name, op="Conv"):
    bias, nodes, *_ = CASES[name]
    q, channels = [2, K, 5, 4] if op == "Conv" else [2, K, 9, 8], X[1]
    rng = np.random.default_rng(3)
    constants = {"w": rng.standard_normal((K, channels, 3, 3) if op == "Conv" else (channels, K, 3, 3)),
                 "b": rng.standard_normal(K), "scale": rng.standard_normal(K), "shift": rng.standard_normal(K),
                 "mean": rng.standard_normal(K), "variance": rng.random(K) + 0.1, "low": np.array(-0.5),
                 "high": np.array(1.5), "zero": np.array(0.0), "six": np.array(6.0), "half": np.array([0.5]),
                 "three": np.array(3.0), "one": np.array(1.0), "root": np.array(2.0**0.5),
                 "slopes": rng.random((K, 1, 1)),
                 "column": rng.standard_normal((1, K, 1, 1)), "row": rng.standard_normal(q[3])}
    constants = {key: value.astype("f") for key, value in constants.items()}
    return model([conv(["x", "w", *bias], "c", op=op), *nodes],
                 {"x": X, "r": q, "small": [1, K, 1, 1], "given": []}, ["y"], constants), q


def steps(layer):
    return ",".join(step.value for step in layer.epilogue)


@pytest.mark.parametrize("name", CASES)
def test_what_is_folded_computes_the_same(name, tmp_path):
    proto, q = made(name)
    (layer,) = read_model(saved(proto, tmp_path))
    assert (steps(layer), len(layer.folded)) == CASES[name][2:]
    assert layer.residual == ("r" if "residual" in steps(layer) else "")
    feeds = {"x": drawn(*X), "r": drawn(*q), "small": drawn(1, K, 1, 1), "given": np.array(-0.25, "f")}
    proto.graph.output[0].name = layer.output                       # what the folded layer computes
    (exact,) = evaluated(proto, feeds)
    given = layer.arrays()
    ours = reference(feeds["x"], given.weight, layer.shape, bias=given.bias, epilogue=layer.epilogue,
                     residual=feeds["r"] if layer.residual else None)
    # filters that something is folded into are rounded to float32 once more
    margin = 2e-7 * 36 * np.abs(given.weight).max() * 4 if layer.folded else 0.0
    np.testing.assert_array_less(np.abs(ours.output - exact), 1e-10 + ours.bound * bool(layer.folded) + margin)


@pytest.mark.thin(18)
@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][3]])
def test_a_pack_computes_it(name, tmp_path, monkeypatch):
    proto, q = made(name)
    found = read_model(saved(proto, tmp_path))
    served = pack_of(found, tmp_path / "pack.zip", monkeypatch).conv("/Conv/c", device="cpu")
    x, r = drawn(*X), drawn(*q)
    proto.graph.output[0].name = found[0].output
    (exact,) = evaluated(proto, {"x": x, "r": r, "small": drawn(1, K, 1, 1), "given": np.array(0.0, "f")})
    y = served(x, residual=r if served.record.residual else None)
    np.testing.assert_allclose(y, exact, rtol=0, atol=2e-5 * max(1.0, np.abs(exact).max()))


def test_a_transposed_layer_takes_what_its_filter_can(tmp_path):
    from tests.runtime.models.test_geometry import computed
    for name, told in (("norm", "bias"), ("residual", "bias"), ("norm relu", "bias,relu"), ("scaled", "bias")):
        proto, q = made(name, "ConvTranspose")
        (layer,) = read_model(saved(proto, tmp_path))
        assert (layer.operation, steps(layer)) == (Operation.DATA_GRADIENT, told)
        x = drawn(*X)
        stop = layer.output if "relu" not in told else "n"          # before the activation
        proto.graph.output[0].name = stop
        (exact,) = evaluated(proto, {"x": x, "r": drawn(*q), "small": drawn(1, K, 1, 1), "given": np.array(0.0, "f")})
        np.testing.assert_allclose(computed(layer, x), exact, rtol=0, atol=1e-5 * np.abs(exact).max())


def test_outputs_of_a_transposed_filter_of_groups():
    """Seen with its outputs first, and turned back."""
    from warpconv.runtime.models.read import outputs_first
    w = drawn(6, 4, 3, 2)                       # 3 groups of 2 inputs and 4 outputs
    turned = outputs_first(w, 3, True)
    assert turned.shape == (12, 2, 3, 2)
    for output in range(12):
        for place in range(2):
            np.testing.assert_array_equal(turned[output, place], w[output // 4 * 2 + place, output % 4])
    np.testing.assert_array_equal(outputs_first(turned, 3, True), w)


def test_a_value_that_is_an_output_is_not_folded_away(tmp_path):
    proto = model([conv(["x", "w"], "c"), node("Relu", ["c"], ["y"])], {"x": X}, ["y", "c"], {"w": drawn(K, 4, 3, 3)})
    (layer,) = read_model(saved(proto, tmp_path))
    assert layer.output == "c" and layer.folded == ()


def test_of_two_convolutions_the_later_one_adds_the_other(tmp_path):
    weights = {"v": drawn(4, 4, 3, 3), "w": drawn(4, 4, 3, 3)}
    proto = model([conv(["x", "v"], "a", group=1), conv(["x", "w"], "c"), node("Add", ["a", "c"], ["y"])], {"x": X},
                  ["y"], weights)
    first, second = read_model(saved(proto, tmp_path))
    assert (steps(first), steps(second), second.residual) == ("", "residual", "a")
    # one that is not there yet when the convolution runs is no residual
    late = model([conv(["x", "w"], "c"), node("Tanh", ["z"], ["t"]), node("Add", ["c", "t"], ["y"])],
                 {"x": X, "z": [2, 4, 5, 4]}, ["y"], weights)
    (layer,) = read_model(saved(late, tmp_path))
    assert steps(layer) == ""


def test_a_residual_is_folded_where_it_pays(tmp_path):
    """The stores of products of matrices read one, those of toeplitz do not."""
    def path(weight, outputs, **attributes):
        proto = model([conv(["x", "w"], "c", **attributes), node("Add", ["c", "r"], ["a"]), node("Relu", ["a"], ["y"])],
                      {"x": [8, 64, 28, 28], "r": [8, outputs, 28, 28]}, ["y"], {"w": weight})
        return saved(proto, tmp_path)

    dense = path(drawn(256, 64, 1, 1), 256)
    assert steps(read_model(dense)[0]) == steps(read_model(dense, layout="NHWC")[0]) == "residual,relu"
    assert steps(read_model(dense, dtype="float16")[0]) == "residual,relu"
    assert steps(read_model(dense, dtype="bfloat16", layout="NHWC")[0]) == "residual,relu"
    depthwise = path(drawn(64, 1, 11, 11), 64, group=64, pads=[5, 5, 5, 5])
    assert steps(read_model(depthwise, dtype="float16")[0]) == ""


def test_a_model_in_another_form(tmp_path):
    proto, _ = made("norm relu")
    layer = read_model(saved(proto, tmp_path), dtype="float16", layout="NHWC")[0]
    assert (layer.shape.dtype.value, layer.shape.layout.value) == ("float16", "NHWC")
    given = layer.arrays()
    assert given.weight.dtype == given.bias.dtype == np.float16
    exact = read_model(saved(proto, tmp_path))[0].arrays()
    np.testing.assert_array_equal(given.weight, exact.weight.astype(np.float16))


def test_a_bias_that_the_model_computes_is_the_callers(tmp_path):
    proto = model([node("Neg", ["given"], ["b"]), conv(["x", "w", "b"], "c"), norm("c", "y")],
                  {"x": X, "given": [K]}, ["y"], {"w": drawn(K, 4, 3, 3), **{
                      name: np.ones(K, "f") for name in ("scale", "shift", "mean", "variance")}}, TensorProto.FLOAT)
    (layer,) = read_model(saved(proto, tmp_path))
    assert steps(layer) == "bias" and layer.folded == () and layer.arrays().bias is None


@pytest.mark.parametrize("scale,size,folded", [(100.0, 1000.0, False), (1e-3, 1e-3, False), (2.0, 1.0, True)])
@pytest.mark.parametrize("op", ["norm", "Mul"])
def test_a_float16_filter_that_would_leave_its_type_is_not_folded(scale, size, folded, op, tmp_path):
    w = (drawn(K, 4, 3, 3) * size).astype(np.float16)
    constants = {"w": w, "scale": np.full(K, scale, np.float16), "shift": np.zeros(K, np.float16),
                 "mean": np.zeros(K, np.float16), "variance": np.ones(K, np.float16),
                 "by": np.full((K, 1, 1), scale, np.float16)}
    last = norm("c", "y") if op == "norm" else node("Mul", ["c", "by"], ["y"])
    found = read_model(saved(model([conv(["x", "w"], "c"), last], {"x": X}, ["y"], constants, TensorProto.FLOAT16),
                             tmp_path))[0]
    assert bool(found.folded) is folded
    weight = found.arrays().weight
    assert np.isfinite(weight.astype(np.float32)).all() and (folded or np.array_equal(weight, w))
