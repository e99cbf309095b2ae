"""conv3d of tensors that PyTorch watches, beside its own layer in float64; its operators before PyTorch's
compilers."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch._dynamo.testing
import torch.nn.functional as F

import warpconv
import warpconv.torch
from tests import settings, volumes
from warpconv.codegen.dtypes import DType
from warpconv.runtime.torch import operators as ops

from .layers import ACTIVATIONS, BORDERS, TOLERANCE, close, double

pytestmark = pytest.mark.filterwarnings("ignore:warpconv runs on the CPU device:RuntimeWarning")
# (channels, filters, (T, R, S), what conv3d takes)
LAYERS = {
    "one": (1, 1, (3, 3, 3), {"padding": 1}),
    "depthwise": (4, 4, (3, 5, 2), {"padding": ((1, 2), (2, 0), (1, 0)), "groups": 4}),
    "multiplied": (3, 6, (3, 3, 3), {"padding": "same", "groups": 3, "padding_mode": "reflect"}),
    "strided": (4, 4, (3, 3, 3), {"stride": (2, 1, 2), "padding": 1, "groups": 4}),
    "dense": (3, 5, (1, 3, 2), {"stride": (1, 1, 2), "padding": (0, 2, 1)}),
    "grouped": (6, 4, (2, 2, 3), {"groups": 2, "dilation": (1, 2, 1), "padding": (1, 1, 2),
                                       "padding_mode": "circular"}),
    "valued": (2, 2, (3, 3, 3), {"padding": 1, "padding_mode": "constant", "padding_value": 0.75}),
}
GEOMETRY = ([1, 2, 1], [1, 0, 1, 1, 0, 1], [1, 1, 1], 4, "zeros", 0.0, "auto")


def drawn(name, dtype=torch.float32, last=False, size=(2, 5, 7, 6)):
    """Input, weight and bias of a layer, all requiring grad, and its arguments."""
    c, k, taps, options = LAYERS[name]
    generator = torch.Generator().manual_seed(settings.seed)
    x, weight, bias = (torch.randn(sizes, generator=generator) for sizes in (
        (size[0], c, *size[1:]), (k, c // options.get("groups", 1), *taps), (k,)))
    weight = weight / weight[0].numel() ** 0.5
    if last:
        x = x.contiguous(memory_format=torch.channels_last_3d)
    return *(t.to(dtype).requires_grad_() for t in (x, weight, bias)), options


def theirs(x, weight, bias, stride=1, padding=0, dilation=1, groups=1, padding_mode="zeros", padding_value=0.0):
    """PyTorch's own layer of any border, differentiable, in the type of its arguments."""
    shape = warpconv.ConvShape.of((1, x.shape[1], 99, 99, 99), weight.shape, padding=padding, dilation=dilation,
                                  groups=groups)
    more = {"value": padding_value} if BORDERS[padding_mode] == "constant" else {}
    sides = [side for pair in reversed(shape.padding) for side in pair]
    if any(sides):
        x = F.pad(x, sides, BORDERS[padding_mode], **more)
    return F.conv3d(x, weight, bias, stride, 0, dilation, groups)


def against(make, reference, tensors, scale=1.0):
    """The output of ``make`` and all gradients, beside float64's."""
    made = make(*tensors)
    grad = torch.randn(made.shape, generator=torch.Generator().manual_seed(1)).to(made.dtype)
    wide = double(*tensors)
    wanted = reference(*wide)
    close(made, wanted.detach(), scale)
    got = torch.autograd.grad(made, tensors, grad)
    for mine, other in zip(got, torch.autograd.grad(wanted, wide, grad.double())):
        close(mine, other, scale)
    return made, got


@pytest.mark.parametrize("last", [False, True], ids=["NCDHW", "channels_last_3d"])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer(name, last):
    *tensors, options = drawn(name, last=last)
    made, got = against(lambda x, w, b: warpconv.conv3d(x, w, b, **options),
                        lambda x, w, b: theirs(x, w, b, **options), tensors)
    order = torch.channels_last_3d if last else torch.contiguous_format
    assert made.is_contiguous(memory_format=order) and got[0].is_contiguous(memory_format=order)
    with torch.no_grad():
        assert torch.equal(warpconv.torch.conv3d(*tensors, **options), made)


@pytest.mark.parametrize("number", range(4))
def test_drawn_layers_and_gradients_of_the_operators(number):
    """Beside sums in NumPy, tap by tap, of layers of any border and stride."""
    volume = volumes.drawn(settings.seed + number, dtype=DType.FLOAT32)
    x, w, b, dy = (torch.from_numpy(np.ascontiguousarray(array)).requires_grad_() for array in (
        volume.stored(volume.x), volume.w, volume.b, volume.stored(volume.dy)))
    value = {"padding_value": volume.shape.padding_value}
    made = warpconv.conv3d(x, w, b, **volume.options, **value)
    moved = (lambda t: t.movedim(-1, 1)) if volume.options["layout"] == "NDHWC" else (lambda t: t)
    volume.check_forward(moved(made).detach().numpy())
    by_x, by_w, by_b = torch.autograd.grad(made, [x, w, b], dy)
    volume.check_gradient(moved(by_x).numpy(), "dx")
    volume.check_gradient(by_w.numpy(), "dw")
    close(by_b, moved(dy).detach().double().sum((0, 2, 3, 4)))
    assert torch.equal(by_x, warpconv.conv3d_input(x.shape, w, dy, **volume.options))
    assert torch.equal(by_w, warpconv.conv3d_weight(x, w.shape, dy, **volume.options, **value))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["depthwise", "dense"])
def test_elements_of_16_bits(name, dtype):
    *tensors, options = drawn(name, dtype)
    _, got = against(lambda x, w, b: warpconv.conv3d(x, w, b, activation="silu", **options),
                     lambda x, w, b: F.silu(theirs(x, w, b, **options)), tensors, scale=4.0)
    assert {gradient.dtype for gradient in got} == {dtype}


@pytest.mark.parametrize("steps", [("bias", "residual", "relu"), ("residual", "silu", "bias"), ("bias", "clamp(-0.5,1)")
                                   ], ids=",".join)
def test_an_epilogue(steps):
    x, w, b, options = drawn("multiplied")
    r = torch.randn(2, 6, 5, 7, 6, requires_grad=True) if "residual" in steps else None

    def other(x, w, b, r=None):
        value = theirs(x, w, None, **options)
        for step in steps:
            added = {"bias": lambda v: v + b.reshape(-1, 1, 1, 1), "residual": lambda v: v + r}
            value = {**ACTIVATIONS, **added}[step](value)
        return value

    against(lambda x, w, b, r=None: warpconv.conv3d(x, w, b, epilogue=steps, residual=r, **options), other,
            [x, w, b] if r is None else [x, w, b, r])


@pytest.mark.parametrize("name", ["depthwise", "strided", "grouped"])
def test_gradcheck(name):
    """A layer is linear in each of its tensors, so a large step has no error but rounding's, in float32 as well."""
    *tensors, options = drawn(name, size=(1, 3, 5, 4))
    numbers = {"eps": 0.5, "atol": 2e-5, "rtol": 2e-4, "nondet_tol": 0.0}
    with pytest.warns(UserWarning, match="double precision"):
        assert torch.autograd.gradcheck(lambda x, w, b: warpconv.conv3d(x, w, b, **options), tensors, **numbers)
    if name == "depthwise":
        with pytest.warns(UserWarning, match="double precision"):
            assert torch.autograd.gradgradcheck(lambda x, w, b: warpconv.conv3d(x, w, b, **options), tensors, **numbers)


@pytest.mark.parametrize("name", ["strided", "grouped", "valued"])
def test_gradients_of_gradients(name):
    *tensors, options = drawn(name)
    wide = double(*tensors)

    def twice(layer, tensors):
        made = layer(*tensors, **options)
        first = torch.autograd.grad(made.square().mean(), tensors, create_graph=True)
        return torch.autograd.grad(sum(gradient.square().sum() for gradient in first), tensors)

    for mine, other in zip(twice(warpconv.conv3d, tensors), twice(theirs, wide)):
        close(mine, other, 4.0)


def test_one_volume_and_channels_last_axes():
    x, w, b, options = drawn("depthwise")
    wanted = warpconv.conv3d(x, w, b, **options)
    assert torch.equal(warpconv.conv3d(x[0], w, b, **options), wanted[0])
    last = warpconv.conv3d(x.movedim(1, -1), w, b, layout="NDHWC", **options)
    assert torch.equal(last.movedim(-1, 1), wanted)
    grad = torch.randn_like(last)
    by_x = warpconv.conv3d_input(x.movedim(1, -1).shape, w, grad, layout="NDHWC", **options)
    assert torch.equal(by_x.movedim(-1, 1), torch.autograd.grad(last, x, grad)[0])


def forms():
    """An input in each order in memory, and with gaps in each."""
    x = torch.randn(2, 4, 4, 6, 5)
    last = x.contiguous(memory_format=torch.channels_last_3d)
    return {"NCDHW": x, "channels_last_3d": last, "crop": x[:, :, 1:, :, 1:4], "crop, channels last": last[:, :, :, 2:],
            "other channels": torch.randn(2, 8, 4, 6, 5)[:, ::2]}


@pytest.mark.parametrize("form", forms())
def test_opcheck(form):
    x = forms()[form].requires_grad_()
    w, b = torch.randn(4, 1, 3, 2, 3, requires_grad=True), torch.randn(4, requires_grad=True)
    torch.library.opcheck(ops.conv3d, (x, w, b, None, *GEOMETRY, "bias,silu", "auto", None, "nearest"),
                          atol=1e-4, rtol=1e-4)
    made = ops.conv3d(x, w, None, None, *GEOMETRY, "", "auto", None, "nearest")
    g = torch.randn_like(made).requires_grad_()
    torch.library.opcheck(ops.conv3d_input, (list(x.shape), w, g, *GEOMETRY), atol=1e-4, rtol=1e-4)
    torch.library.opcheck(ops.conv3d_weight, (x, list(w.shape), g, *GEOMETRY), atol=1e-4, rtol=1e-4)


def test_opcheck_of_16_bits_to_32():
    x, w = torch.randn(1, 4, 4, 5, 6, dtype=torch.float16), torch.randn(4, 1, 3, 1, 3, dtype=torch.float16)
    geometry = ([1, 1, 1], [1, 1, 0, 0, 1, 1], [1, 1, 1], 4, "zeros", 0.0, "auto")
    torch.library.opcheck(ops.conv3d, (x, w, None, x, *geometry, "residual", "auto", None, "nearest"))
    torch.library.opcheck(ops.conv3d, (x, w, None, None, *geometry, "", "auto", "float32", "nearest"))


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["depthwise", "multiplied", "dense"])
def test_compiled_without_a_break(name, backend):
    *tensors, options = drawn(name)
    torch._dynamo.reset()

    def step(x, w, b):
        return F.silu(warpconv.conv3d(x, w, b, activation="relu", **options)).square().sum()

    wanted = torch.autograd.grad(step(*tensors), tensors)
    got = torch.autograd.grad(torch.compile(step, fullgraph=True, backend=backend)(*tensors), tensors)
    for mine, other in zip(got, wanted):
        close(mine, other, 2.0)


def test_compiled_gradients_and_dynamic_batches():
    _, w, b, options = drawn("depthwise")
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")

    def step(x):
        y = warpconv.conv3d(x, w, b, layout="NDHWC", **options).detach()
        return warpconv.conv3d_weight(x, w.shape, y, layout="NDHWC", **options), warpconv.conv3d_input(
            x.shape, w.detach(), y, layout="NDHWC", **options)

    layer, compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=counter), []
    for batch in (7, 8, 9):         # sizes that are equal by chance are taken to be one
        x = torch.randn(batch, 6, 10, 11, 4)
        for mine, other in zip(layer(x), step(x)):
            assert torch.equal(mine, other)
        compiled.append(counter.frame_count)
    assert compiled[0] == compiled[-1]


def test_exported():
    layer = warpconv.torch.Conv3d(4, 4, 3, padding=1, groups=4).eval()
    x = torch.randn(2, 4, 5, 6, 7)
    program = torch.export.export(layer, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    assert "warpconv.conv3d" in str(program.graph)
    more = torch.randn(3, 4, 5, 6, 7)
    assert torch.equal(program.module()(more), layer(more))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_autocast(dtype):
    *tensors, options = drawn("dense")
    with torch.autocast("cpu", dtype=dtype):
        made = warpconv.conv3d(*tensors, **options)
        with torch.no_grad():
            assert warpconv.conv3d(*tensors, **options).dtype is dtype
    assert made.dtype is dtype
    got = torch.autograd.grad(made.float().square().sum(), tensors)
    assert {gradient.dtype for gradient in got} == {torch.float32}
    wide = double(*tensors)
    for mine, other in zip(got, torch.autograd.grad(theirs(*wide, **options).square().sum(), wide)):
        largest = max(1.0, other.abs().max().item()) * 4
        assert (mine.double() - other).abs().max().item() <= TOLERANCE[dtype] * largest


def test_a_layer_in_training_becomes_better():
    """Ours and PyTorch's from one state take the same steps."""
    torch.manual_seed(settings.seed)
    other = torch.nn.Sequential(torch.nn.Conv3d(1, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv3d(4, 1, 3))
    mine = copy.deepcopy(other)
    warpconv.torch.convert(mine, where="all")
    x, goal = torch.randn(2, 1, 5, 6, 6), torch.randn(2, 1, 3, 4, 4)
    losses = []
    for model in (mine, other):
        steps = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(8):
            steps.zero_grad()
            loss = (model(x) - goal).square().mean()
            loss.backward()
            steps.step()
            losses.append(loss.item())
    assert np.allclose(losses[:8], losses[8:], rtol=1e-5) and losses[7] < losses[0]


@pytest.mark.parametrize("named, error, told", [
    ({"stride": (1, 2)}, warpconv.ShapeError, "stride must be one number or (depth, vertical, horizontal)"),
    ({"padding": "full"}, warpconv.ShapeError, "unknown padding"),
    ({"padding": "same", "stride": 2}, warpconv.ShapeError, "needs stride 1"),
    ({"layout": "NCHW"}, warpconv.ArgumentError, "unknown layout of volumes"),
    ({"stream": 0}, warpconv.ArgumentError, "current stream"),
    ({"epilogue": ["expr(v * 2)"]}, warpconv.ArgumentError, "an expression has no derivative here"),
    ({"residual": np.zeros(3)}, warpconv.ArgumentTypeError, "takes tensors"),
    ({"out": torch.empty(2, 4, 5, 6, 7)}, warpconv.ArgumentError, "requires grad"),
    ({"weight": torch.zeros(4, 1, 3, 3)}, warpconv.ShapeError, "weight has 4 axes, 5 are needed")])
def test_mistakes(named, error, told):
    x, w, b, _ = drawn("depthwise")
    with pytest.raises(error) as met:
        warpconv.conv3d(**{"input": x, "weight": w, "bias": b, "groups": 4, **named})
    assert told in str(met.value)


def test_forward_mode_is_refused():
    x, w, _, options = drawn("depthwise")
    with torch.autograd.forward_ad.dual_level(), pytest.raises(warpconv.ArgumentTypeError, match="forward-mode"):
        warpconv.conv3d(torch.autograd.forward_ad.make_dual(x.detach(), torch.ones_like(x)), w.detach(), **options)
