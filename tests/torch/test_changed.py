"""Layers that somebody changed: weights of other kinds, sizes and orders in memory, methods and numbers set on them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import warpconv
import warpconv.torch as layers
from tests.torch.layers import close
from warpconv.codegen.errors import ArgumentTypeError, ShapeError

pytestmark = pytest.mark.filterwarnings("ignore:warpconv runs on the CPU device:RuntimeWarning")


class Scaled(torch.Tensor):
    """Integers with a scale, which no kernel may read as floats."""

    @staticmethod
    def __new__(cls, whole, scale):
        return torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=torch.float32, strides=whole.stride())

    def __init__(self, whole, scale):
        self.whole, self.scale = whole, scale

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), named=None):
        if function is torch.ops.aten.detach.default:
            return cls(args[0].whole, args[0].scale)

        def plain(value):
            return value.whole.float() * value.scale if isinstance(value, cls) else value

        return function(*map(plain, args), **{name: plain(value) for name, value in (named or {}).items()})


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


def test_a_weight_of_a_kind_of_its_own():
    layer = layers.Conv2d(4, 4, 3).eval().requires_grad_(False)
    whole = (layer.weight * 100).round()
    layer.weight = torch.nn.Parameter(Scaled(whole.to(torch.int8), 0.01), requires_grad=False)
    x = drawn(1, 4, 7, 7)
    close(layer(x), F.conv2d(x.double(), whole.double() * 0.01, layer.bias.double()))


def test_conv_forward_of_somebody_else():
    def tiled(self, x, weight, bias):
        return F.conv2d(F.pad(x, (1, 1, 1, 1), mode="circular"), weight, bias)

    class Other(layers.Conv2d):
        _conv_forward = tiled

    x = drawn(1, 4, 7, 7)
    patched, theirs = torch.nn.Conv2d(4, 4, 3, padding=1), Other(4, 4, 3, padding=1)
    patched._conv_forward = tiled.__get__(patched)
    done = layers.convert(torch.nn.Sequential(patched), where="all")
    assert not done.rows[0].converted and "_conv_forward is somebody's own" in done.rows[0].why
    ours = layers.Conv2d(4, 4, 3, padding=1)
    ours._conv_forward = tiled.__get__(ours)
    for layer in (theirs, ours):
        with torch.no_grad():
            assert torch.equal(layer.eval()(x), tiled(layer, x, layer.weight, layer.bias))


def test_weights_at_one_address_with_other_strides():
    layer, x, weight = layers.Conv2d(16, 32, 3, padding=1).eval(), drawn(1, 16, 8, 8), drawn(32, 16, 3, 3)
    with torch.no_grad():
        for view in (weight, weight.transpose(2, 3), weight):
            made = torch.func.functional_call(layer, {"weight": view, "bias": torch.zeros(32)}, (x,))
            close(made, F.conv2d(x.double(), view.double(), padding=1), 8.0)


def test_a_weight_of_fewer_filters_and_one_that_is_shared():
    layer, x = layers.Conv2d(16, 32, 3, padding=1).eval(), drawn(1, 16, 8, 8)
    with torch.no_grad():
        layer(x)
        layer.weight, layer.bias = (torch.nn.Parameter(t[::2].clone()) for t in (layer.weight, layer.bias))
        close(layer(x), F.conv2d(x.double(), layer.weight.double(), layer.bias.double(), padding=1))
        layer.share_memory()
        layer(x)
        layer.weight.numpy()[...] *= 2      # as another process would: PyTorch does not count it
        close(layer(x), F.conv2d(x.double(), layer.weight.double(), layer.bias.double(), padding=1))


def test_numbers_that_are_set_on_a_layer():
    line, plane, back = torch.nn.Conv1d(4, 4, 3), torch.nn.Conv2d(4, 4, 3), torch.nn.ConvTranspose1d(4, 4, 3)
    line.stride, line.padding, plane.dilation, back.stride = 2, 1, 2, 2
    x, image = drawn(1, 4, 9), drawn(1, 4, 9, 9)
    wanted = line(x), plane(image), back(x)
    model = torch.nn.ModuleList([line, plane, back])
    assert [row.layer for row in layers.convert(model, where="all").rows] == [
        "Conv1d 4->4, 3, stride 2", "Conv2d 4->4, 3x3, dilation 2x2", "ConvTranspose1d 4->4, 3, stride 2"]
    for layer, given, theirs in zip(model, (x, image, x), wanted):
        close(layer(given).detach(), theirs.detach().double())
    layers.convert(torch.nn.Sequential(line_of_two := torch.nn.Conv1d(4, 4, 3)), x)
    assert line_of_two(x).shape == (1, 4, 7)


@pytest.mark.parametrize("precision", ["tf32", "ieee"])
def test_a_layers_precision_is_of_float32_elements(precision):
    layer, x = layers.Conv2d(8, 8, 3, padding=1).eval(), drawn(1, 8, 6, 6)
    layer.precision = precision
    for quiet in (torch.no_grad, torch.enable_grad):
        with quiet(), torch.autocast("cpu", dtype=torch.bfloat16):
            assert layer(x).dtype is torch.bfloat16
    assert layer.half()(x.half()).dtype is torch.float16
    model = torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3))
    done = layers.convert(model, where="all")
    model[0].precision = precision
    done.undo()
    assert not hasattr(model[0], "precision")


def test_an_output_padding_that_no_kernel_has_is_not_converted():
    model = torch.nn.Sequential(torch.nn.ConvTranspose1d(4, 4, 3, dilation=2, output_padding=1))
    done = layers.convert(model, where="all")
    assert not done.rows[0].converted and "output_padding = (1,)" in done.rows[0].why
    with pytest.raises(ShapeError, match=r"output_padding = \(1,\)"):
        layers.ConvTranspose1d(4, 4, 3, dilation=2, output_padding=1)(drawn(1, 4, 9))


@pytest.mark.parametrize("out, error", [
    (torch.zeros(5, 2, 4, 4, 4, dtype=torch.bfloat16), ShapeError),
    (torch.zeros(2, 4, 4, 4, dtype=torch.int32), ArgumentTypeError),
    (torch.zeros(2, 4, 4, 4), ArgumentTypeError),
    (torch.empty(2, 4, 4, 4, device="meta", dtype=torch.bfloat16), ArgumentTypeError)])
def test_an_output_of_a_call_under_autocast_is_of_its_type_and_sizes(out, error):
    x, weight = drawn(2, 3, 6, 6), drawn(4, 3, 3, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(error, match="out"):
        warpconv.conv2d(x, weight, out=out)


def test_the_gradient_of_a_bias_where_pytorch_watches():
    grad = drawn(2, 6, 3, 3).requires_grad_()
    close(warpconv.conv2d_bias(grad).detach(), grad.detach().double().sum((0, 2, 3)))
    assert torch.equal(torch.autograd.grad(warpconv.conv2d_bias(grad, layout="NHWC").sum(), grad)[0],
                       torch.ones_like(grad))
    with torch.no_grad():
        compiled = torch.compile(lambda g: warpconv.conv2d_bias(g) + 1, backend="eager", fullgraph=True)
        close(compiled(grad), grad.double().sum((0, 2, 3)) + 1)
        close(torch.vmap(warpconv.conv2d_bias)(grad[None]), grad.double().sum((0, 2, 3))[None])
