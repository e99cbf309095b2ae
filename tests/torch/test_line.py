"""conv1d and its layers before PyTorch: gradients, compilers, states, and what convert does with Conv1d."""

from __future__ import annotations

import pickle

import pytest
import torch
import torch._dynamo.testing
import torch.nn.functional as F

import warpconv
import warpconv.torch as layers
from warpconv.codegen.hardware import Hardware
from warpconv.runtime.call import streamed
from warpconv.runtime.torch import operators as ops
from warpconv.torch import estimate, sizes

from .layers import close, double

pytestmark = pytest.mark.filterwarnings("ignore:warpconv runs on the CPU device:RuntimeWarning")


def operands(dtype=torch.float32, last=False):
    generator = torch.Generator().manual_seed(5)
    x, w, b = (torch.randn(size, generator=generator) for size in ((2, 6, 21), (6, 1, 4), (6,)))
    if last:
        x = x.transpose(1, 2).contiguous().transpose(1, 2)
    return [t.to(dtype).requires_grad_() for t in (x, w, b)]


def causal(x, w, b, before=None):
    """A causal layer of dilation 2 with silu, by PyTorch."""
    before = x.new_zeros((*x.shape[:2], 6)) if before is None else before
    return F.silu(F.conv1d(torch.cat((before, x), 2), w, b, dilation=2, groups=6))


def ours(x, w, b, **more):
    return warpconv.conv1d(x, w, b, padding="causal", dilation=2, groups=6, activation="silu", **more)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["NCL", "NCL over NLC"])
def test_gradients_are_pytorchs_in_float64(dtype, last):
    mine = operands(dtype, last)
    exact = double(*mine)
    made, wanted = ours(*mine), causal(*exact)
    close(made.detach(), wanted.detach())
    assert made.stride(1) == (1 if last else 21)
    grad = torch.randn_like(made)
    for got, other in zip(torch.autograd.grad(made, mine, grad), torch.autograd.grad(wanted, exact, grad.double())):
        close(got, other, 4.0)


def test_gradients_of_gradients():
    mine = operands()
    exact = double(*mine)
    found = []
    for tensors, layer in ((mine, ours), (exact, causal)):
        first = torch.autograd.grad(layer(*tensors).square().sum(), tensors[:2], create_graph=True)
        found.append(torch.autograd.grad(sum(g.square().sum() for g in first), tensors))
    for got, other in zip(*found):
        close(got, other, 8.0)


def test_a_state_is_differentiated():
    mine, state = operands(), torch.randn(2, 6, 6, requires_grad=True)
    exact, (wide,) = double(*mine), double(state)
    made, after = ours(*mine, state=state, return_state=True)
    assert torch.equal(after, mine[0][:, :, -6:])
    for got, other in zip(torch.autograd.grad(made.sum() + after.square().sum(), [*mine, state]), torch.autograd.grad(
            causal(*exact, wide).sum() + exact[0][:, :, -6:].square().sum(), [*exact, wide])):
        close(got, other, 4.0)
    with pytest.raises(warpconv.ShapeError, match="state"):
        ours(*mine, state=state[:, :, 1:])


@pytest.mark.parametrize("whole", [streamed.COPIED_WHOLE, 0])
def test_parameters_alone_are_recorded_through_a_state(whole, monkeypatch):
    monkeypatch.setattr(streamed, "COPIED_WHOLE", whole)
    (x, *parameters), state = operands(), torch.randn(2, 6, 6)
    x = x.detach()
    exact = double(*parameters)
    made, _ = ours(x, *parameters, state=state, return_state=True)
    wanted = causal(x.double(), *exact, state.double())
    for got, other in zip(torch.autograd.grad(made.sum(), parameters), torch.autograd.grad(wanted.sum(), exact)):
        close(got, other, 4.0)


def test_a_bias_alone_is_recorded_through_a_long_filter():
    x, w, b = operands()[0].detach(), torch.randn(6, 1, 200), torch.randn(6, requires_grad=True)
    out = warpconv.conv1d(x, w, b, padding="causal", groups=6)
    assert torch.equal(torch.autograd.grad(out.sum(), b)[0], torch.full((6,), 42.0))
    close(warpconv.conv1d(x, w, b.detach(), padding="causal", groups=6), out.detach(), 4.0)


def test_compiled_without_a_break():
    mine, state = operands(), torch.randn(2, 6, 6)
    torch._dynamo.reset()

    def step(x, w, b, state):
        y, state = ours(x, w, b, state=state, return_state=True)
        y = warpconv.conv1d(y.transpose(1, 2), w, padding=(1, 2), groups=6, layout="NLC").transpose(1, 2)
        y = warpconv.conv_transpose1d(y, w, stride=2, padding=1, output_padding=1, groups=6)
        return y.square().mean() + state.sum()

    wanted = torch.autograd.grad(step(*mine, state), mine)
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for got, other in zip(torch.autograd.grad(compiled(*mine, state), mine), wanted):
        close(got, other)
    assert torch.equal(torch.compile(lambda x, w: warpconv.conv1d_weight(
        x, (6, 1, 4), warpconv.conv1d_input(x.shape, w, x, padding="causal", groups=6), padding="causal", groups=6),
        fullgraph=True, backend="aot_eager")(*(t.detach() for t in mine[:2])), warpconv.conv1d_weight(
            mine[0].detach(), (6, 1, 4), warpconv.conv1d_input((2, 6, 21), mine[1].detach(), mine[0].detach(),
                                                               padding="causal", groups=6), padding="causal", groups=6))


LAYERS = {"dense": {"groups": 1, "padding": 1}, "strided": {"groups": 1, "stride": 2}, "depthwise": {"padding": "same"},
          "causal": {"padding": "causal", "dilation": 2}}


@pytest.mark.parametrize("last", [False, True], ids=["NCL", "NCL over NLC"])
@pytest.mark.parametrize("dynamic", [None, True], ids=["from the second length", "from the first"])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.thin(3)
def test_compiled_for_lengths_that_differ(name, dynamic, last):
    layer = layers.Conv1d(6, 6, 4, **{"groups": 6, **LAYERS[name]})
    counter = torch._dynamo.testing.CompileCounterWithBackend("eager")
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, dynamic=dynamic, backend=counter)
    frames = []
    for length in (40, 30, 21, 17):
        x = torch.randn(2, length, 6).transpose(1, 2) if last else torch.randn(2, 6, length)
        made, wanted = compiled(x), layer(x)
        assert torch.equal(made, wanted) and made.stride() == wanted.stride()
        frames.append(counter.frame_count)
    assert frames == ([1] * 4 if dynamic else [1, 2, 2, 2])
    layer.eval()
    with torch.no_grad():
        assert torch.equal(compiled(x), wanted)


@pytest.mark.parametrize("last", [False, True], ids=["NCL", "NCL over NLC"])
@pytest.mark.parametrize("name", LAYERS)
def test_exported_with_a_dynamic_length(name, last):
    layer = layers.Conv1d(6, 6, 4, **{"groups": 6, **LAYERS[name]}).eval()

    def drawn(length):
        return torch.randn(2, length, 6).transpose(1, 2) if last else torch.randn(2, 6, length)

    length = torch.export.Dim("length", min=10, max=4000)
    program = torch.export.export(layer, (drawn(40),), dynamic_shapes=({2: length},)).module()
    for x in (drawn(30), drawn(21)):
        assert torch.equal(program(x), layer(x))


def test_functions_compiled_for_lengths_that_differ():
    _, w, b = (t.detach() for t in operands())
    torch._dynamo.reset()

    def step(x):
        y, state = ours(x, w, b, return_state=True)
        back = warpconv.conv1d_input(x.shape, w, y, padding="causal", dilation=2, groups=6)
        return warpconv.conv_transpose1d(y, w, stride=2, groups=6), state, warpconv.conv1d_weight(
            x, (6, 1, 4), back, padding="causal", dilation=2, groups=6)

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="eager")
    for length in (40, 30, 21):
        x = torch.randn(2, 6, length)
        for made, wanted in zip(compiled(x), step(x)):
            assert torch.equal(made, wanted)


@pytest.mark.parametrize("last", [False, True])
def test_opcheck_of_one_row(last):
    x, w, b = operands(last=last)
    geometry = ([1, 1], [0, 0, 3, 0], [1, 1], 6, "zeros", 0.0, "auto")
    x, w = x.unsqueeze(2), w.unsqueeze(2)
    rest = ("bias,silu", "auto", None, None, "nearest", None, None)
    torch.library.opcheck(ops.conv2d, (x, w, b, None, *geometry, *rest), atol=1e-4, rtol=1e-4)
    g = torch.randn_like(x).requires_grad_()
    torch.library.opcheck(ops.conv2d_input, (list(x.shape), w, g, *geometry), atol=1e-4, rtol=1e-4)
    torch.library.opcheck(ops.conv2d_weight, (x, [6, 1, 1, 4], g, *geometry), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("last", [False, True], ids=["NCL", "NCL over NLC"])
def test_a_causal_layer(last):
    layer = layers.Conv1d(6, 6, 4, padding="causal", dilation=2, groups=6)
    theirs = torch.nn.Conv1d(6, 6, 4, dilation=2, groups=6)
    theirs.load_state_dict(layer.state_dict())
    assert "padding=causal" in repr(layer) and layers.Conv1d(2, 2, 3, 1, 1).padding == (1,)
    x = operands(last=last)[0]
    wanted = theirs.double()(F.pad(x.double(), (6, 0))).detach()
    made = layer(x)
    close(made.detach(), wanted)
    assert made.stride(1) == (1 if last else 21)
    layer.eval()
    with torch.no_grad():
        for made in (layer(x), layer(x), pickle.loads(pickle.dumps(layer))(x)):
            close(made, wanted)
        state, parts = None, []
        for begin, end in ((0, 1), (1, 3), (3, 21)):
            made, state = layer.stream(x[:, :, begin:end], state)
            parts.append(made)
        close(torch.cat(parts, 2), wanted)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype is torch.bfloat16
    with pytest.raises(warpconv.ArgumentError, match="causal"):
        layers.Conv1d(6, 6, 4, padding=1, groups=6).stream(x)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("taps, last, taken", [(4, False, True), (7, False, True), (31, False, True), (4, True, True),
                                               (31, True, True)])
def test_depthwise_layers_are_converted_by_the_estimate(dtype, taps, last, taken):
    layer = torch.nn.Conv1d(512, 512, taps, padding=taps - 1, groups=512, dtype=getattr(torch, dtype))
    x = torch.zeros(8, 512, 2048, dtype=layer.weight.dtype)
    x = x.transpose(1, 2).contiguous().transpose(1, 2) if last else x
    quicker, why, *_ = estimate.quicker(sizes.shape_of(layer, x), Hardware.of("sm_90"), tf32=True)
    assert quicker is taken, why
