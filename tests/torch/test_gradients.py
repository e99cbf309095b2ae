"""Gradients of conv2d, of its epilogue, of the transposed layer, and of gradients, against float64 and finite
differences.

torch.autograd.gradcheck wants float64, which no kernel takes: so PyTorch's own convolution is differentiated in
float64, and finite differences are taken in float32, with steps and bounds that its rounding allows.
"""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import warpconv
from tests import settings
from warpconv.codegen.errors import KernelNotBuilt
from warpconv.runtime.torch import autograd, operators

from .layers import ACTIVATIONS, LAYERS, close, double, drawn, theirs

pytestmark = pytest.mark.filterwarnings("ignore:warpconv runs on the CPU device:RuntimeWarning")


class Called(TorchDispatchMode):
    """The names of warpconv's operators that are called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "warpconv":
            self.names.append(func._opname)
        return func(*args, **(kwargs or {}))


def against(layer, make, reference, tensors, scale=1.0):
    """The output of ``make`` and all gradients, beside float64's."""
    made = make(*tensors)
    grad = torch.randn(made.shape, generator=torch.Generator().manual_seed(1)).to(made.dtype)
    wide = double(*tensors)
    wanted = reference(*wide)
    close(made, wanted.detach(), scale)
    named = [(t, v) for t, v in zip(tensors, wide) if t is not None and t.requires_grad]
    got = torch.autograd.grad(made, [t for t, _ in named], grad)
    for mine, other in zip(got, torch.autograd.grad(wanted, [v for _, v in named], grad.double())):
        close(mine, other, scale)
    return got


@pytest.mark.parametrize("last", [False, True], ids=["NCHW", "channels_last"])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer(name, last):
    *tensors, options = drawn(name, settings.seed, last=last)
    got = against(name, lambda x, w, b: warpconv.conv2d(x, w, b, **options),
                  lambda x, w, b: theirs(x, w, b, **options), tensors)
    assert got[0].is_contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["depthwise", "dense", "grouped"])
def test_elements_of_16_bits(name, dtype):
    *tensors, options = drawn(name, settings.seed, dtype)
    got = against(name, lambda x, w, b: warpconv.conv2d(x, w, b, activation="silu", **options),
                  lambda x, w, b: F.silu(theirs(x, w, b, **options)), tensors, scale=4.0)
    assert {gradient.dtype for gradient in got} == {dtype}


@pytest.mark.parametrize("last", [False, True], ids=["NCHW", "channels_last"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("planes", [(), (3,)], ids=["2d", "3d"])
def test_a_large_bias_is_summed_by_a_kernel(planes, dtype, last, monkeypatch):
    """Where nothing watches, and only there: PyTorch sees sums of its own in a gradient that is differentiated."""
    sums, run = [], operators.run_bias
    monkeypatch.setitem(autograd.LEAST_SUMMED, "cpu", 500)
    monkeypatch.setattr(operators, "run_bias", lambda *args: sums.append(run(*args)) or sums[-1])
    conv, theirs = (warpconv.conv3d, F.conv3d) if planes else (warpconv.conv2d, F.conv2d)
    generator = torch.Generator().manual_seed(settings.seed)
    x, w, b = (torch.randn(shape, generator=generator) for shape in (
        (3, 8, *planes, 6, 7), (8, 1, *[1] * len(planes), 3, 3), (8,)))
    if last:
        x = x.contiguous(memory_format=torch.channels_last_3d if planes else torch.channels_last)
    tensors = [t.to(dtype).requires_grad_() for t in (x, w, b)]
    options = {"padding": (0, 1, 1)[-x.dim() + 2:], "groups": 8}
    got = against("", lambda x, w, b: conv(x, w, b, **options), lambda x, w, b: theirs(x, w, b, **options), tensors,
                  scale=4.0)
    assert sums and got[2] is sums[-1]
    made = len(sums)
    made_again, = torch.autograd.grad(conv(*tensors, **options).float().square().sum(), tensors[2], create_graph=True)
    assert made_again.requires_grad and len(sums) == made
    with Called():
        torch.autograd.grad(conv(*tensors, **options).sum(), tensors[2])
    torch.autograd.grad(conv(tensors[0][:1, ..., :3], *tensors[1:], **options).sum(), tensors[2])       # few elements
    assert len(sums) == made

    def refuse(*_):
        raise KernelNotBuilt("none is there")

    monkeypatch.setattr(operators, "run_bias", refuse)
    again, = torch.autograd.grad(conv(*tensors, **options).float().square().sum(), tensors[2])
    close(again, made_again.detach().double(), 4.0)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_activation(activation):
    *tensors, options = drawn("multiplied", settings.seed)
    against("multiplied", lambda x, w, b: warpconv.conv2d(x, w, b, activation=activation, **options),
            lambda x, w, b: ACTIVATIONS[activation](theirs(x, w, b, **options)), tensors)


@pytest.mark.parametrize("steps", [("bias", "residual", "relu"), ("residual", "silu", "bias"), ("relu", "residual"),
                                   ("bias", "quantize(0.5,3)", "gelu"), ("silu", "bias", "clamp(-1,1)", "residual"),
                                   ("residual", "bias")], ids=",".join)
def test_an_epilogue(steps):
    x, w, b, options = drawn("depthwise", settings.seed)
    r = torch.randn(warpconv.conv2d(x, w, **options).shape).requires_grad_() if "residual" in steps else None
    b = b if "bias" in steps else None

    def other(x, w, b, r):
        value = theirs(x, w, None, **options)
        for step in steps:
            if step == "bias":
                value = value + b[:, None, None]
            elif step == "residual":
                value = value + r
            elif step == "quantize(0.5,3)":
                value = value / 0.5 + 3
            else:
                value = {**ACTIVATIONS, "clamp(-1,1)": lambda v: v.clamp(-1, 1)}[step](value)
        return value

    against("depthwise", lambda x, w, b, r: warpconv.conv2d(x, w, b, epilogue=steps, residual=r, **options), other,
            [x, w, b, r])


@pytest.mark.parametrize("name", ["depthwise", "strided", "grouped"])
def test_finite_differences(name):
    """Of sum(g * y), in float32: its second difference is 0 but for rounding, as y is linear in each of x, w and b."""
    *tensors, options = drawn(name, settings.seed)
    grad = torch.randn_like(warpconv.conv2d(*tensors, **options))
    got = torch.autograd.grad(warpconv.conv2d(*tensors, **options), tensors, grad)
    generator = torch.Generator().manual_seed(settings.seed)
    for number, gradient in enumerate(got):
        for _ in range(3):
            direction = torch.randn(gradient.shape, generator=generator)
            sums = []
            for sign in (1, -1):
                moved = [t.detach() + (sign * direction if n == number else 0) for n, t in enumerate(tensors)]
                sums.append((warpconv.conv2d(*moved, **options).double() * grad.double()).sum())
            slope = (sums[0] - sums[1]) / 2
            along = (gradient.double() * direction.double()).sum()
            assert abs(slope - along) < 1e-4 * max(1.0, (gradient.abs() * direction.abs()).sum().item())


@pytest.mark.parametrize("name, activation", [("dense", None), ("grouped", None), ("valued", None), ("strided", None),
                                              *(("depthwise", activation) for activation in ACTIVATIONS)])
def test_double_backward(name, activation):
    """The gradients of a function of gradients: each operator's own."""
    *tensors, options = drawn(name, settings.seed)
    act = ACTIVATIONS[activation]

    def second(x, w, b, layer):
        y = layer(x, w, b)
        first = torch.autograd.grad((y * y).sum(), [x, w, b], create_graph=True)
        return torch.autograd.grad(sum((g * g).mean() for g in first), [x, w, b])

    got = second(*tensors, lambda x, w, b: warpconv.conv2d(x, w, b, activation=activation, **options))
    for mine, other in zip(got, second(*double(*tensors), lambda x, w, b: act(theirs(x, w, b, **options)))):
        close(mine, other, 10.0)


@pytest.mark.parametrize("needs, wanted", [
    ((True, False, False), {"conv2d_input"}), ((False, True, False), {"conv2d_weight"}),
    ((False, False, True), set()), ((True, True, True), {"conv2d_input", "conv2d_weight"})])
def test_nothing_is_computed_that_nobody_needs(needs, wanted):
    *tensors, options = drawn("depthwise", settings.seed)
    for tensor, need in zip(tensors, needs):
        tensor.requires_grad_(need)
    made = warpconv.conv2d(*tensors, **options)
    kept = [t for t in made.grad_fn.saved_tensors if t is not None]
    assert len(kept) == len(wanted)
    with Called() as called:
        made.sum().backward()
    assert set(called.names) == wanted
    assert [t.grad is not None for t in tensors] == list(needs)


def test_values_before_an_activation_are_computed_again_but_a_relus_are_not():
    *tensors, options = drawn("depthwise", settings.seed)
    for activation, wanted in (("relu", 0), ("gelu", 1)):
        with Called() as called:
            warpconv.conv2d(*tensors, activation=activation, **options).sum().backward()
        assert called.names.count("conv2d") == 1 + wanted


def test_bits_are_equal_from_run_to_run():
    *tensors, options = drawn("depthwise", settings.seed, size=(5, 33, 37))
    torch.use_deterministic_algorithms(True)
    try:
        runs = []
        for _ in range(3):
            made = warpconv.conv2d(*tensors, **options)
            runs.append([made, *torch.autograd.grad(made.square().sum(), tensors)])
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for run in runs[1:] for a, b in zip(runs[0], run))


def test_activation_checkpointing():
    *tensors, options = drawn("dense", settings.seed)

    def block(x, w, b):
        return warpconv.conv2d(x, w, b, activation="silu", **options)

    wanted = torch.autograd.grad(block(*tensors).square().sum(), tensors)
    got = torch.autograd.grad(checkpoint(block, *tensors, use_reentrant=False).square().sum(), tensors)
    assert all(torch.equal(a, b) for a, b in zip(got, wanted))


@pytest.mark.parametrize("options", [
    {}, {"stride": 2, "padding": 1, "output_padding": 1}, {"groups": 2, "dilation": (2, 1), "padding": (1, 0)},
    {"stride": (2, 3), "output_padding": (1, 2)}, {"dilation": 3, "padding": 2, "output_padding": 1}], ids=str)
def test_the_transposed_layer(options):
    groups = options.get("groups", 1)
    x, w, b = (torch.randn(*shape).requires_grad_() for shape in ((2, 4, 5, 6), (4, 6 // groups, 3, 3), (6,)))
    against("", lambda x, w, b: warpconv.conv_transpose2d(x, w, b, **options),
            lambda x, w, b: F.conv_transpose2d(x, w, b, **options), [x, w, b])


@pytest.mark.parametrize("options", [
    {}, {"stride": 2, "padding": 1, "output_padding": 1}, {"groups": 2, "dilation": (2, 1, 1), "padding": (1, 0, 2)},
    {"stride": (1, 2, 3), "output_padding": (0, 1, 2)}], ids=str)
def test_the_transposed_layer_of_volumes(options):
    groups = options.get("groups", 1)
    x, w, b = (torch.randn(*shape).requires_grad_() for shape in ((2, 4, 3, 5, 6), (4, 6 // groups, 2, 3, 3), (6,)))
    against("", lambda x, w, b: warpconv.conv_transpose3d(x, w, b, **options),
            lambda x, w, b: F.conv_transpose3d(x, w, b, **options), [x, w, b])


def test_gradients_by_name_are_recorded_too():
    x, w, _, options = drawn("strided", settings.seed)
    g = torch.randn_like(warpconv.conv2d(x, w, **options)).requires_grad_()
    against("", lambda w, g: warpconv.conv2d_input(x.shape, w, g, **options),
            lambda w, g: torch.nn.grad.conv2d_input(x.shape, w, g, **options), [w, g])
    against("", lambda x, g: warpconv.conv2d_weight(x, w.shape, g, **options),
            lambda x, g: torch.nn.grad.conv2d_weight(x, w.shape, g, **options), [x, g])


def test_one_image_and_the_other_order_of_axes():
    x, w, b, options = drawn("depthwise", settings.seed)
    plain = warpconv.conv2d(x, w, b, **options)
    one = warpconv.conv2d(x[0], w, b, **options)
    turned = warpconv.conv2d(x.permute(0, 2, 3, 1), w, b, layout="NHWC", **options)
    assert torch.equal(one, plain[0]) and one.requires_grad
    assert torch.equal(turned, plain.permute(0, 2, 3, 1)) and turned.requires_grad


@pytest.mark.parametrize("given, match", [
    ({"epilogue": ["expr(v * 2)"]}, "an expression has no derivative"), ({"stream": 0}, "current stream"),
    ({"out": torch.empty(2, 4, 7, 9)}, "not written to a given output"), ({"out_dtype": "uint8"}, "no gradient"),
    ({"residual": "no"}, "takes tensors"), ({"layout": "NWHC"}, "layout")])
def test_what_cannot_be_recorded_is_refused_in_words(given, match):
    x, w = torch.randn(2, 4, 9, 11), torch.randn(4, 1, 3, 3, requires_grad=True)
    with pytest.raises(warpconv.WarpconvError, match=match):
        warpconv.conv2d(x, w, groups=4, **given)


@pytest.mark.parametrize("leaf", [True, False])
@pytest.mark.parametrize("name", ["conv2d", "conv2d_input", "conv2d_weight", "conv_transpose2d", "conv1d", "conv3d"])
def test_an_output_that_requires_grad_is_refused_before_anything_is_launched(name, leaf):
    """Nothing would be recorded of it; PyTorch's own out= refuses it, too."""
    x, w, y = torch.randn(2, 4, 8, 8), torch.randn(4, 4, 3, 3), torch.randn(2, 4, 6, 6)
    call, size = {"conv2d": (lambda out: warpconv.conv2d(x, w, out=out), y.shape),
                  "conv2d_input": (lambda out: warpconv.conv2d_input(x.shape, w, y, out=out), x.shape),
                  "conv2d_weight": (lambda out: warpconv.conv2d_weight(x, w.shape, y, out=out), w.shape),
                  "conv_transpose2d": (lambda out: warpconv.conv_transpose2d(y, w, out=out), x.shape),
                  "conv1d": (lambda out: warpconv.conv1d(x[:, :, 0], w[:, :, 0], out=out), (2, 4, 6)),
                  "conv3d": (lambda out: warpconv.conv3d(x[:, :, None], w[:, :, None], out=out), (2, 4, 1, 6, 6)),
                  }[name]
    out = torch.zeros(size, requires_grad=True)
    with Called() as called, pytest.raises(warpconv.ArgumentTypeError, match="requires grad.*detach") as caught:
        call(out if leaf else out * 1)
    assert caught.value.argument == "out" and not called.names
    with torch.no_grad():
        call(out)
    assert out.any()
    assert call(out.detach()).data_ptr() == out.data_ptr()


def test_an_output_is_refused_before_what_requires_grad_is_computed():
    x, w, y = torch.randn(2, 4, 8, 8), torch.randn(4, 4, 3, 3, requires_grad=True), torch.randn(2, 4, 6, 6)
    with Called() as called, pytest.raises(warpconv.ArgumentError, match="not written to a given output"):
        warpconv.conv2d_input(x.shape, w, y, out=torch.zeros(x.shape))
    assert not called.names


def test_steps_of_ones_own_are_taken_where_nothing_is_recorded():
    x, w = torch.randn(2, 4, 9, 11), torch.randn(4, 1, 3, 3, requires_grad=True)
    with torch.no_grad():
        made = warpconv.conv2d(x, w, groups=4, epilogue=["expr(v * 2)"], out=torch.empty(2, 4, 7, 9))
    close(made, 2 * F.conv2d(x, w, groups=4).detach())


def test_pixels_have_no_gradient():
    x, w = torch.randint(0, 255, (1, 1, 8, 8), dtype=torch.uint8), torch.randn(1, 1, 3, 3, requires_grad=True)
    with pytest.raises(warpconv.ArgumentTypeError, match="integers have no gradient"):
        warpconv.conv2d(x, w)


def test_complex_elements_are_no_integers():
    x, w = torch.randn(1, 1, 8, 8) + 1j, torch.randn(1, 1, 3, 3, requires_grad=True)
    with pytest.raises(warpconv.ArgumentTypeError, match=r"no kernels for complex64.*\.real"):
        warpconv.conv2d(x, w)


@pytest.mark.parametrize("transform", ["grad", "jvp", "dual"])
def test_transforms_that_would_lose_the_gradient_are_refused(transform):
    x, w, _, options = drawn("depthwise", settings.seed)
    x, w = x.detach(), w.detach()
    layer = lambda x: warpconv.conv2d(x, w, **options)      # noqa: E731
    forward = torch.autograd.forward_ad
    with pytest.raises(warpconv.ArgumentTypeError), contextlib.ExitStack() as stack:
        if transform == "grad":
            torch.func.grad(lambda x: layer(x).sum())(x)
        elif transform == "jvp":
            torch.func.jvp(layer, (x,), (x,))
        else:
            stack.enter_context(forward.dual_level())
            layer(forward.make_dual(x, x))
