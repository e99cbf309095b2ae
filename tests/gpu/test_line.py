"""conv1d on a GPU: drawn layers, streams on a stream of their own, long filters, gradients through PyTorch."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import warpconv
from tests.lines import TYPES, drawn
from warpconv.runtime.call import streamed

pytestmark = pytest.mark.gpu


def turned(array, layout):
    return array if layout == "NCL" else np.ascontiguousarray(array.swapaxes(1, 2))


@pytest.mark.parametrize("layout", ["NCL", "NLC"])
@pytest.mark.parametrize("number", range(20))
def test_drawn_layers(number, layout):
    layer = drawn(number)
    made = warpconv.conv1d(turned(layer.x, layout), layer.w, layer.b, **layer.options, layout=layout, device="cuda")
    layer.check(turned(made, layout))


@pytest.mark.parametrize("layout", ["NCL", "NLC"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("taps, length", [(4, 4096), (7, 4100), (31, 4096), (255, 4096), (1024, 4096)])
def test_causal_layers_of_every_kind(taps, length, dtype, layout):
    layer = drawn(taps, n=2, groups=40, each=1, filters=1, taps=taps, dilation=1, stride=1, length=length, dtype=dtype,
                  padding="causal", mode="zeros")
    made = warpconv.conv1d(turned(layer.x, layout), layer.w, layer.b, **layer.options, layout=layout, device="cuda")
    layer.check(turned(made, layout))


@pytest.mark.parametrize("whole", [streamed.COPIED_WHOLE, 0], ids=["joined", "first outputs again"])
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_a_stream_on_a_stream_of_its_own(library, whole, monkeypatch):
    module = pytest.importorskip(library, reason="the arrays stay on the GPU")
    monkeypatch.setattr(streamed, "COPIED_WHOLE", whole)
    layer = drawn(3, n=2, groups=64, each=1, filters=1, taps=4, dilation=2, stride=1, length=150, dtype="float32",
                  padding="causal", mode="zeros")
    take = (lambda a: module.from_numpy(a).cuda()) if library == "torch" else module.asarray
    x, w, b = map(take, (layer.x, layer.w, layer.b))
    more = {**layer.options, "activation": "silu", "algorithm": "direct"}
    wait = module.cuda.synchronize if library == "torch" else module.cuda.runtime.deviceSynchronize
    wanted = warpconv.conv1d(x, w, b, **more)
    wait()
    queue = module.cuda.Stream() if library == "torch" else module.cuda.Stream(non_blocking=True)
    for place in (contextlib.nullcontext(), module.cuda.stream(queue) if library == "torch" else queue):
        with place:
            state, parts, begin = None, [], 0
            for end in (1, 3, 40, 41, 150):
                made, state = warpconv.conv1d(x[:, :, begin:end], w, b, state=state, return_state=True, **more)
                parts.append(made)
                begin = end
            joined = module.cat(parts, 2) if library == "torch" else module.concatenate(parts, 2)
            equal = (joined == wanted).all()
        wait()
        assert bool(equal)


@pytest.mark.parametrize("last", [False, True], ids=["NCL", "NCL over NLC"])
def test_gradients_of_a_causal_layer(last):
    torch = pytest.importorskip("torch", reason="PyTorch records the gradients")
    import warpconv.torch as layers
    layer = layers.Conv1d(96, 96, 4, padding="causal", groups=96).cuda()
    x = torch.randn(4, 96, 700, device="cuda")
    x = (x.transpose(1, 2).contiguous().transpose(1, 2) if last else x).requires_grad_()
    theirs = torch.nn.Conv1d(96, 96, 4, groups=96).cuda().double()
    theirs.load_state_dict(layer.state_dict())
    wide = x.detach().double().requires_grad_()
    made, wanted = layer(x), theirs(torch.nn.functional.pad(wide, (3, 0)))
    grad = torch.randn_like(made)
    made.backward(grad)
    wanted.backward(grad.double())
    pairs = [(made, wanted), (x.grad, wide.grad), (layer.weight.grad, theirs.weight.grad),
             (layer.bias.grad, theirs.bias.grad)]
    for got, other in pairs:
        assert (got - other).norm() <= 1e-5 * other.norm()
