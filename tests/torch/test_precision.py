"""precision= in PyTorch: the operator, what records and compiles it, and the layers' attribute."""

from __future__ import annotations

import pytest
import torch

import warpconv
import warpconv.torch

pytestmark = pytest.mark.filterwarnings("ignore:warpconv runs on the CPU device:RuntimeWarning")


def operands():
    generator = torch.Generator().manual_seed(3)
    x, w = (torch.randn(size, generator=generator) for size in ((1, 32, 6, 6), (8, 32, 3, 3)))
    return x.to(memory_format=torch.channels_last), w, torch.nn.functional.conv2d(x.double(), w.double(), padding=1)


def error(made, exact):
    return float((made.detach().double() - exact).norm() / exact.norm())


def test_a_call_recorded_or_not_or_compiled_has_it():
    x, w, exact = operands()

    def call(a, b):
        return warpconv.conv2d(a, b, padding=1, device="cpu", precision="tf32")

    assert 1e-5 < error(call(x, w), exact) < 1e-3
    recorded = call(x, w.clone().requires_grad_())
    assert error(recorded, exact) == error(call(x, w), exact)
    recorded.sum().backward()
    assert error(torch.compile(call, fullgraph=True, backend="aot_eager")(x, w), exact) == error(call(x, w), exact)
    assert error(warpconv.conv2d(x, w, padding=1, device="cpu", precision="tf32x3"), exact) < 1e-6


def test_the_operator_has_it_last_with_a_default():
    """So that what was exported before there was a precision still runs."""
    x, w, exact = operands()
    given = (x, w, None, None, [1, 1], [1, 1, 1, 1], [1, 1], 1, "zeros", 0.0, "cpu", "", "auto", None, None, "nearest",
             None, None)
    assert error(torch.ops.warpconv.conv2d(*given), exact) < 1e-6 < error(
        torch.ops.warpconv.conv2d(*given, "tf32"), exact)


def test_a_layer_has_it_as_an_attribute():
    x, w, exact = operands()
    layer = warpconv.torch.Conv2d(32, 8, 3, padding=1, bias=False).eval()
    layer.weight.data.copy_(w)
    errors = {}
    with torch.no_grad():
        for name in ("tf32", "ieee", "tf32"):
            layer.precision = name
            errors[name] = error(layer(x), exact)
    assert errors["ieee"] < 1e-6 < errors["tf32"] < 1e-3 and "precision" not in layer.state_dict()


GRADIENTS = {"padding": 1, "device": "cpu"}


def gradient_error(made, exact):
    return [float((a.detach().double() - b).norm() / b.norm()) for a, b in zip(made, exact)]


def gradients_of(layer, x, grad):
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    made = layer(x)
    return torch.autograd.grad(made, [x, layer.weight], grad.to(made.dtype))


@pytest.mark.parametrize("kind, stride", [("Conv2d", 1), ("Conv2d", 2), ("ConvTranspose2d", 2)])
def test_a_layers_gradients_have_its_precision(kind, stride):
    """tf32 rounds factors to three digits, which the others do not."""
    torch.manual_seed(5)
    layer = getattr(warpconv.torch, kind)(64, 64, 3, padding=1, stride=stride, bias=False)
    x = torch.randn(2, 64, 12, 12).to(memory_format=torch.channels_last)
    stock = getattr(torch.nn, kind)(64, 64, 3, padding=1, stride=stride, bias=False).double()
    stock.weight.data.copy_(layer.weight.data)
    grad = torch.randn_like(stock(x.double()))
    exact = gradients_of(stock, x.double(), grad)
    for precision, least, most in (("tf32", 3e-5, 2e-3), ("ieee", 0.0, 1e-6), ("float32", 0.0, 1e-6)):
        layer.precision = precision
        of_data, of_filter = gradient_error(gradients_of(layer, x, grad), exact)
        # of few pixels a strided data gradient is by float32 units, which are quicker and more exact
        assert (least if stride == 1 else 0.0) <= of_data < most and least <= of_filter < most, precision


def test_split_precisions_leave_gradients_the_default():
    """They are not had of each gradient: a backward pass is not refused for it."""
    torch.manual_seed(6)
    layer = warpconv.torch.Conv2d(32, 16, 3, padding=1, bias=False)
    x, grad = torch.randn(2, 32, 9, 9), torch.randn(2, 16, 9, 9)
    made = gradients_of(layer, x, grad)
    layer.precision = "fp16x3"
    assert all(map(torch.equal, gradients_of(layer, x, grad), made))


def test_functions_of_gradients_have_a_precision():
    torch.manual_seed(7)
    x, w, dy = (torch.randn(size).to(memory_format=torch.channels_last)
                for size in ((2, 64, 12, 12), (64, 64, 3, 3), (2, 64, 12, 12)))
    exact = (torch.nn.grad.conv2d_input(x.shape, w.double(), dy.double(), padding=1),
             torch.nn.grad.conv2d_weight(x.double(), w.shape, dy.double(), padding=1))

    def both(w, dy, precision):
        return (warpconv.conv2d_input(x.shape, w, dy, precision=precision, **GRADIENTS),
                warpconv.conv2d_weight(x, w.shape, dy, precision=precision, **GRADIENTS))

    for given in ((w, dy), (w.clone().requires_grad_(), dy.clone().requires_grad_())):       # recorded, too
        assert all(3e-5 < error < 2e-3 for error in gradient_error(both(*given, "tf32"), exact))
        assert all(error < 1e-6 for error in gradient_error(both(*given, "float32"), exact))
    twice = both(w.clone().requires_grad_(), dy, "tf32")[0].square().sum()
    twice.backward()        # a filter gradient of what was asked for in tf32
    compiled = torch.compile(both, fullgraph=True, backend="aot_eager")
    assert all(map(torch.equal, compiled(w, dy, "tf32"), both(w, dy, "tf32")))
    with pytest.raises(warpconv.UnsupportedSpec, match="fp16x3"):
        both(w, dy, "fp16x3")
    with pytest.raises(warpconv.ArgumentError, match="precision"):
        both(w, dy, "half")


def test_operators_of_gradients_have_it_last_with_a_default():
    """So that what was exported before they had a precision still runs."""
    x, w, dy = (torch.randn(size).to(memory_format=torch.channels_last)
                for size in ((2, 64, 12, 12), (64, 64, 3, 3), (2, 64, 12, 12)))
    given = [1, 1], [1, 1, 1, 1], [1, 1], 1, "zeros", 0.0, "cpu"
    for call in (lambda *more: torch.ops.warpconv.conv2d_input(list(x.shape), w, dy, *given, *more),
                 lambda *more: torch.ops.warpconv.conv2d_weight(x, list(w.shape), dy, *given, *more)):
        made, others = call(), call("tf32")
        assert 1e-5 < float((made - others).norm() / made.norm()) < 1e-3


def test_convert_gives_layers_a_precision_and_takes_it_back():
    model = torch.nn.Sequential(torch.nn.Conv2d(16, 16, 3), torch.nn.ConvTranspose2d(16, 8, 2, stride=2))
    done = warpconv.torch.convert(model, where="all", precision="tf32")
    assert [layer.precision for layer in model] == ["tf32", "tf32"]
    assert not any("precision" in name for name in model.state_dict())
    done.undo()
    assert not any(hasattr(layer, "precision") for layer in model)
    with pytest.raises(warpconv.ArgumentError, match="precision"):
        warpconv.torch.convert(model, where="all", precision="tf33")
    assert type(model[0]) is torch.nn.Conv2d
