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
