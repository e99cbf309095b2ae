"""torch.ops.warpconv before PyTorch's compilers, tracers and modes."""

from __future__ import annotations

import copy
import io
import warnings

import numpy as np
import pytest
import torch
import torch._dynamo.testing
import torch.nn.functional as F

import warpconv
import warpconv.torch as warpconv_layers
from tests import settings
from warpconv.runtime.torch import operators as ops

from .layers import LAYERS, close, drawn, theirs

pytestmark = pytest.mark.filterwarnings("ignore:warpconv runs on the CPU device:RuntimeWarning")
GEOMETRY = ([1, 1], [1, 1, 1, 1], [1, 1], 4, "zeros", 0.0, "auto")
BY_RULE = ("auto", None, None, "nearest", None, None)


def forms():
    """An input in each order in memory, and with gaps in each."""
    x = torch.randn(2, 4, 9, 11)
    last = x.contiguous(memory_format=torch.channels_last)
    return {"NCHW": x, "channels_last": last, "crop": x[:, :, 1:, 2:9], "crop of channels_last": last[:, :, 1:, 2:9],
            "other channels": torch.randn(2, 8, 9, 11)[:, ::2]}


@pytest.mark.parametrize("form", forms())
@pytest.mark.parametrize("recorded", [False, True], ids=["", "recorded"])
def test_opcheck_of_the_forward(form, recorded):
    x = forms()[form].requires_grad_(recorded)
    w, b = torch.randn(4, 1, 3, 3, requires_grad=recorded), torch.randn(4, requires_grad=recorded)
    torch.library.opcheck(ops.conv2d, (x, w, b, None, *GEOMETRY, "bias,silu", *BY_RULE), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("form", forms())
def test_opcheck_of_the_gradients(form):
    x = forms()[form].requires_grad_()
    w, g = torch.randn(4, 1, 3, 3, requires_grad=True), torch.randn_like(x).requires_grad_()
    torch.library.opcheck(ops.conv2d_input, (list(x.shape), w, g, *GEOMETRY), atol=1e-4, rtol=1e-4)
    torch.library.opcheck(ops.conv2d_weight, (x, [4, 1, 3, 3], g, *GEOMETRY), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_opcheck_of_16_bits_to_32(dtype):
    x, w = torch.randn(1, 4, 8, 8, dtype=dtype), torch.randn(4, 1, 3, 3, dtype=dtype)
    torch.library.opcheck(ops.conv2d, (x, w, None, x, *GEOMETRY, "residual", *BY_RULE))
    torch.library.opcheck(ops.conv2d, (x, w, None, None, *GEOMETRY, "", "auto", None, "float32", *BY_RULE[3:]))


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", LAYERS)
def test_compiled_without_a_break(name, backend):
    *tensors, options = drawn(name, settings.seed)
    torch._dynamo.reset()

    def step(x, w, b):
        return F.silu(warpconv.conv2d(x, w, b, activation="relu", **options)).square().sum()

    wanted = torch.autograd.grad(step(*tensors), tensors)
    for mine, other in zip(torch.autograd.grad(torch.compile(step, fullgraph=True, backend=backend)(*tensors), tensors),
                           wanted):
        close(mine, other, 2.0)


def test_compiled_transposed_and_gradients():
    x, w = torch.randn(2, 4, 5, 6), torch.randn(4, 2, 3, 3)
    torch._dynamo.reset()

    def step(x, w):
        y = warpconv.conv_transpose2d(x, w, stride=2, padding=1)
        return warpconv.conv2d_weight(y, (4, 2, 3, 3), x, stride=2, padding=1), warpconv.conv2d_input(
            y.shape, w, x, stride=2, padding=1)

    for mine, other in zip(torch.compile(step, fullgraph=True, backend="aot_eager")(x, w), step(x, w)):
        assert torch.equal(mine, other)


def test_a_volumes_layer_of_one_tap_is_compiled():
    """Called alone it is a layer of images, which depends on its sizes."""
    x, w = torch.randn(2, 4, 3, 5, 6, requires_grad=True), torch.randn(6, 4, 1, 1, 1, requires_grad=True)
    torch._dynamo.reset()

    def step(x, w):
        return torch.autograd.grad(warpconv.conv3d(x, w).square().sum(), (x, w))

    wanted = torch.autograd.grad(F.conv3d(x, w).square().sum(), (x, w))
    compiled = torch.compile(lambda x, w: warpconv.conv3d(x, w).square().sum(), fullgraph=True, backend="aot_eager")
    for made in (step(x, w), torch.autograd.grad(compiled(x, w), (x, w))):
        for mine, other in zip(made, wanted):
            close(mine, other, 2.0)


def test_dynamic_batches_are_not_compiled_again():
    _, w, b, options = drawn("depthwise", settings.seed)
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    layer = torch.compile(lambda x: warpconv.conv2d(x, w, b, **options), fullgraph=True, dynamic=True, backend=counter)
    compiled = []
    for batch in (2, 3, 5, 8):
        x = torch.randn(batch, 4, 9, 11)
        close(layer(x).detach(), theirs(x.double(), w.double(), b.double(), **options).detach())
        compiled.append(counter.frame_count)
    assert compiled[0] == compiled[-1]


def test_a_mistake_is_told_while_compiling():
    torch._dynamo.reset()
    layer = torch.compile(lambda x, w: warpconv.conv2d(x, w, activation="rely"), backend="eager", fullgraph=True)
    with pytest.raises(Exception, match="unknown epilogue step"):
        layer(torch.randn(1, 1, 8, 8), torch.randn(1, 1, 3, 3))


def test_traced():
    *tensors, options = drawn("depthwise", settings.seed)
    x, w, b = (tensor.detach() for tensor in tensors)
    layer = torch.jit.trace(lambda x: warpconv.conv2d(x, w, b, activation="gelu", **options), x)
    other = torch.randn_like(x)
    assert torch.equal(layer(other), warpconv.conv2d(other, w, b, activation="gelu", **options))
    file = io.BytesIO()
    torch.jit.save(layer, file)
    file.seek(0)
    assert torch.equal(torch.jit.load(file)(other), layer(other))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_traced_for_other_sizes(rank):
    """Operators that take sizes: what was traced computes them of the tensors that it meets."""
    w = torch.randn(4, 4, *[3] * rank)
    data, filters = (getattr(warpconv, f"conv{rank}d_{name}") for name in ("input", "weight"))

    def step(x):
        y = data(x.shape, w, x, padding=1)
        return (y, filters(x, w.shape, y, padding=1),
                getattr(warpconv, f"conv_transpose{rank}d")(x, w, stride=2, padding=1) if rank < 3 else x)

    with warnings.catch_warnings():     # of sizes and strides of the weight, which are kept as they are
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        traced = torch.jit.trace(step, torch.randn(2, 4, *range(5, 5 + rank)))
    for size in ((3, 4, 7, 6, 5), (1, 4, 4, 9, 8)):
        x = torch.randn(size[:2 + rank])
        for made, wanted in zip(traced(x), step(x)):
            assert torch.equal(made, wanted)


def test_exported_with_a_dynamic_batch():
    x, w, b, options = drawn("depthwise", settings.seed)

    class Layer(torch.nn.Module):
        def forward(self, x, w, b):
            return warpconv.conv2d(x, w, b, activation="relu", **options)

    program = torch.export.export(Layer(), (x, w, b), dynamic_shapes=({0: torch.export.Dim("batch")}, None, None))
    assert "warpconv.conv2d" in str(program.graph)
    more = torch.randn(7, 4, 9, 11)
    assert torch.equal(program.module()(more, w, b), warpconv.conv2d(more, w, b, activation="relu", **options))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_autocast(dtype):
    *tensors, options = drawn("dense", settings.seed)
    with torch.autocast("cpu", dtype=dtype):
        made = warpconv.conv2d(*tensors, **options)
        with torch.no_grad():
            assert warpconv.conv2d(*tensors, **options).dtype is dtype
        assert warpconv.conv_transpose2d(made, tensors[1].to(dtype)).dtype is dtype
    assert made.dtype is dtype
    got = torch.autograd.grad(made.float().square().sum(), tensors)
    assert {gradient.dtype for gradient in got} == {torch.float32}
    wide = [t.detach().double().requires_grad_() for t in tensors]
    for mine, other in zip(got, torch.autograd.grad(theirs(*wide, **options).square().sum(), wide)):
        close(mine.to(dtype), other, 4.0)


def test_vmap():
    x, w, b, options = drawn("depthwise", settings.seed)
    x, w, b = x.detach(), w.detach(), b.detach()
    many = torch.stack([x, x + 1, x - 2])
    made = torch.vmap(lambda x: warpconv.conv2d(x, w, b, **options))(many)
    assert torch.equal(made, torch.stack([warpconv.conv2d(x, w, b, **options) for x in many]))


def test_host_tensors_are_read_and_written_where_they_are(monkeypatch):
    """No copy of input or output is made on the way to the CPU device."""
    from warpconv.runtime.devices.cpu import backend
    seen = []
    real = backend.CpuBackend.run
    monkeypatch.setattr(backend.CpuBackend, "run", lambda self, call, *rest: (seen.append(
        {name: view.pointer for name, view in call.operands.items()}), real(self, call, *rest))[1])
    x, w = (torch.randn(shape, dtype=torch.bfloat16, requires_grad=True) for shape in ((2, 4, 9, 11), (4, 1, 3, 3)))
    made = warpconv.conv2d(x, w, groups=4, device="cpu")
    assert {x.data_ptr(), w.data_ptr(), made.data_ptr()} <= set(seen[0].values())
    grad = torch.randn_like(made)
    by_x, by_w = torch.autograd.grad(made, [x, w], grad)
    read = {pointer for call in seen[1:] for pointer in call.values()}
    assert {x.data_ptr(), w.data_ptr(), grad.data_ptr(), by_x.data_ptr(), by_w.data_ptr()} <= read


@pytest.mark.parametrize("grad", [True, False])
def test_shapes_alone(grad):
    """Tensors of the device meta have no elements."""
    x = torch.empty(2, 4, 9, 8, device="meta", dtype=torch.float16).contiguous(memory_format=torch.channels_last)
    layer = warpconv_layers.Conv2d(4, 6, 3, stride=2, padding=1, device="meta", dtype=torch.float16)
    calls = [lambda: layer(x), lambda: copy.deepcopy(layer).eval()(x),
             lambda: warpconv.conv2d(x, layer.weight, layer.bias, 2, 1)]
    with torch.set_grad_enabled(grad):
        for call in calls:
            made = call()
            assert made.is_meta and made.shape == (2, 6, 5, 4) and made.dtype is torch.float16
            assert made.is_contiguous(memory_format=torch.channels_last) and made.requires_grad is grad


@pytest.mark.parametrize("given", [torch.float32, np.float32, "float32"], ids=str)
def test_the_output_s_type(given):
    x, w = torch.randn(1, 4, 5, 5).half(), torch.randn(4, 1, 3, 3).half().requires_grad_()
    for recorded in (True, False):
        with torch.set_grad_enabled(recorded):
            made = warpconv.conv2d(x, w, groups=4, out_dtype=given)
        assert made.dtype is torch.float32 and made.requires_grad is recorded


def test_equal_but_wrong_arguments_are_still_refused():
    """What is remembered of a recorded call's arguments tells 1 from 1.0 and True."""
    x, w = torch.randn(1, 4, 5, 5), torch.randn(4, 1, 3, 3, requires_grad=True)
    for size in (1, (1, 1)):
        warpconv.conv2d(x, w, None, size, size, size, 4)
        for wrong in (1.0, True):
            for at in range(3):
                sizes = [size] * 3
                sizes[at] = wrong if size == 1 else (1, wrong)
                with pytest.raises(warpconv.ArgumentTypeError, match="must be an integer"):
                    warpconv.conv2d(x, w, None, *sizes, 4)


@pytest.mark.parametrize("axes", [1, 2])
def test_transposed_layers_take_shapes_alone(axes):
    name = f"conv_transpose{axes}d"
    x, w = (torch.empty(*sizes, *[n] * axes, device="meta") for sizes, n in (((2, 4), 5), ((4, 3), 3)))
    made = getattr(warpconv, name)(x, w, stride=2)
    assert made.is_meta and made.shape == getattr(torch.nn.functional, name)(x, w, stride=2).shape
    layer = getattr(warpconv.torch, f"ConvTranspose{axes}d")(4, 3, 3, device="meta")
    assert layer(x).shape == (2, 3, *[7] * axes)
