"""The layers: PyTorch's state, copies and pickles; weights prepared once, and again when they have changed."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
import torch.fx

import warpconv
import warpconv.torch as layers
from warpconv.runtime.call.kernel import Kernel

from .layers import close

pytestmark = pytest.mark.filterwarnings("ignore:warpconv runs on the CPU device:RuntimeWarning")
CASES = {
    "Conv2d": [((4, 6, 3), {"padding": 1, "groups": 2}), ((3, 3, (5, 2)), {"padding": "same", "groups": 3}),
               ((2, 3, 3), {"stride": (2, 1), "padding": (2, 1), "dilation": (1, 2), "bias": False}),
               ((3, 3, 3), {"padding": 1, "padding_mode": "reflect", "groups": 3}),
               ((2, 2, 3), {"padding": (2, 1), "padding_mode": "circular"}),
               ((2, 2, 3), {"padding": "same", "padding_mode": "replicate"})],
    "Conv1d": [((4, 4, 4), {"padding": 3, "groups": 4}), ((3, 6, 3), {"padding": "same", "dilation": 2}),
               ((2, 2, 5), {"stride": 2, "padding": 2, "padding_mode": "reflect"})],
    "ConvTranspose2d": [((4, 6, 3), {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}),
                        ((3, 2, (2, 3)), {"dilation": (1, 2), "bias": False})],
    "ConvTranspose1d": [((4, 4, 4), {"stride": 2, "groups": 4})],
    "Conv3d": [((4, 6, 3), {"padding": 1, "groups": 2}), ((3, 3, (2, 5, 3)), {"padding": "same", "groups": 3}),
               ((2, 3, 3), {"stride": (2, 1, 2), "padding": (0, 2, 1), "dilation": (2, 1, 1), "bias": False}),
               ((2, 2, 3), {"padding": (1, 2, 1), "padding_mode": "circular"}),
               ((3, 3, 3), {"padding": 1, "padding_mode": "reflect", "groups": 3})],
}
ALL = [pytest.param(name, args, options, id=f"{name}-{number}") for name, cases in CASES.items()
       for number, (args, options) in enumerate(cases)]


def pair(name, args, options, dtype=None):
    """A layer of ours and PyTorch's own with its state; an input."""
    ours = getattr(layers, name)(*args, **options, dtype=dtype)
    theirs = getattr(torch.nn, name)(*args, **options).double()
    theirs.load_state_dict(ours.state_dict())
    sizes = {"1d": (17,), "2d": (9, 12), "3d": (6, 7, 9)}[name[-2:]]
    return ours, theirs, torch.randn((2, args[0], *sizes), dtype=dtype)


@pytest.mark.parametrize("name, args, options", ALL)
def test_a_layer_is_pytorchs(name, args, options):
    ours, theirs, x = pair(name, args, options)
    assert isinstance(ours, getattr(torch.nn, name)) and repr(ours) == repr(theirs)
    wide = x.double().requires_grad_()
    wanted = theirs(wide)
    grad = torch.randn(wanted.shape)
    wanted.backward(grad.double())
    x.requires_grad_()
    made = ours(x)
    close(made, wanted.detach())
    made.backward(grad)
    close(x.grad, wide.grad)
    for mine, other in zip(ours.parameters(), theirs.parameters()):
        close(mine.grad, other.grad, 4.0)
    ours.eval()
    with torch.no_grad():
        for _ in range(2):
            close(ours(x), wanted.detach())
        close(ours(x[0]), wanted[0].detach())


@pytest.mark.parametrize("name, args, options", ALL)
def test_a_layer_is_compiled(name, args, options):
    ours, theirs, x = pair(name, args, options)
    torch._dynamo.reset()
    compiled = torch.compile(ours.eval(), fullgraph=True, backend="aot_eager")
    close(compiled(x).detach(), theirs(x.double()).detach())


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("name, args, options", ALL)
def test_a_layer_is_traced_for_other_sizes(name, args, options):
    ours, _, x = pair(name, args, options)
    other = torch.randn((3, args[0], 11, 7, 8)[:x.dim()])
    for layer in (ours.train(), ours.eval()):
        file = io.BytesIO()
        torch.jit.save(torch.jit.trace(layer, x), file)
        file.seek(0)
        loaded = torch.jit.load(file)
        assert torch.equal(loaded(other), ours(other)) and torch.equal(loaded(x), ours(x))
    wanted = torch.autograd.grad(ours(other).square().sum(), list(ours.parameters()))
    for made, grad in zip(torch.autograd.grad(loaded(other).square().sum(), list(loaded.parameters())), wanted):
        assert torch.equal(made, grad)


@pytest.mark.parametrize("name, args, options", ALL)
def test_a_layer_is_one_call_to_fx(name, args, options):
    ours, _, x = pair(name, args, options)
    model = torch.nn.Sequential(torch.nn.ReLU(), ours)
    for whole in (model.train(), model.eval()):
        graph = torch.fx.symbolic_trace(whole)
        assert [node.target for node in graph.graph.nodes if node.op.startswith("call")] == ["0", "1"]
        with torch.no_grad():
            for made in (graph, copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
                assert torch.equal(made(x), whole(x))
        assert torch.equal(graph(x), whole(x))
    alone = torch.fx.symbolic_trace(ours, {"output_size": None} if "Transpose" in name else None)
    assert torch.equal(alone(x), ours(x))
    named = [node.target.__name__ for node in alone.graph.nodes if node.op == "call_function"]
    assert [name for name in named if "assert" not in name] == [{"ConvTranspose": "conv_transpose", "Conv": "conv"}[
        name[:-2]] + name[-2:]]      # torch.fx asserts that output_size is not given


@pytest.mark.parametrize("name", CASES)
def test_scripting_is_refused_in_words(name):
    ours, _, _ = pair(name, *CASES[name][0])
    with pytest.raises(warpconv.ArgumentTypeError, match="torch.jit.script does not take warpconv's layers.*undo"):
        torch.jit.script(torch.nn.Sequential(ours))
    with pytest.raises(warpconv.ArgumentError, match="output_size"):
        torch.fx.symbolic_trace(layers.ConvTranspose2d(2, 2, 3))


@pytest.mark.parametrize("name, args, options", [ALL[0].values, ALL[6].values, ALL[9].values, ALL[12].values])
def test_copies_and_pickles(name, args, options):
    ours, _, x = pair(name, args, options)
    ours.eval()
    with torch.no_grad():
        wanted = ours(x)
        for made in (copy.deepcopy(ours), copy.copy(ours), pickle.loads(pickle.dumps(ours))):
            assert type(made) is type(ours) and "_warpconv_prepared" not in vars(made)
            assert torch.equal(made(x), wanted)
    assert pickle.dumps(ours).count(b"warpconv.torch") and list(ours.state_dict()) == list(
        getattr(torch.nn, name)(*args, **options).state_dict())
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x), wanted)


@pytest.fixture
def dense(monkeypatch):
    """A layer whose kernel reorders its weight, an input, and the weights that were prepared."""
    layer = layers.Conv2d(16, 16, 3, padding=1, dtype=torch.float16).eval().requires_grad_(False)
    layer = layer.to(memory_format=torch.channels_last)
    prepared = []
    real = Kernel.prepare
    monkeypatch.setattr(Kernel, "prepare", lambda self, weight, **more: prepared.append(weight) or real(
        self, weight, **more))
    return layer, torch.randn(2, 16, 8, 8).half().contiguous(memory_format=torch.channels_last), prepared


def right(layer, x):
    close(layer(x), torch.nn.functional.conv2d(x.double(), layer.weight.double(), layer.bias.double(), padding=1), 2.0)


def test_a_weight_is_prepared_once_and_again_when_it_has_changed(dense):
    layer, x, prepared = dense
    for _ in range(4):
        right(layer, x)
    assert len(prepared) == 1       # by the second call: the first does not know yet
    layer.weight.add_(0.5)          # a step of an optimizer
    right(layer, x)
    layer.load_state_dict({name: value * 2 for name, value in layer.state_dict().items()})
    right(layer, x)
    layer.weight = torch.nn.Parameter(torch.randn_like(layer.weight), requires_grad=False)
    right(layer, x)
    right(layer, x)
    assert len(prepared) == 4
    layer.weight.data.mul_(2)       # which PyTorch does not count
    layer.forget_prepared()
    right(layer, x)
    right(layer, x)
    assert len(prepared) == 5


def test_nothing_is_prepared_while_training_or_where_pytorch_watches(dense):
    layer, x, prepared = dense
    layer.train()
    right(layer, x)
    right(layer, x)
    layer.eval()
    with torch.autocast("cpu", dtype=torch.float16):
        right(layer, x)
    layer.weight.requires_grad_()
    right(layer, x)
    right(layer, x)
    assert prepared == []


def test_weights_without_versions_are_given_as_they_are(dense):
    layer, x, prepared = dense
    with torch.inference_mode():
        layer.weight = torch.nn.Parameter(torch.randn_like(layer.weight), requires_grad=False)
        right(layer, x)
        layer.weight.add_(1.0)
        right(layer, x)
    assert prepared == []


def test_a_layer_whose_stride_is_changed():
    layer, x = layers.Conv2d(2, 2, 3).eval(), torch.randn(1, 2, 9, 9)
    with torch.no_grad():
        for stride in ((1, 1), (2, 2), (2, 1)):
            layer.stride = stride
            for _ in range(2):
                close(layer(x), torch.nn.functional.conv2d(x.double(), layer.weight.double(), layer.bias.double(),
                                                           stride))


def test_hooks_and_parametrizations_are_kept():
    layer = layers.Conv2d(2, 2, 3)
    seen = []
    layer.register_forward_hook(lambda *args: seen.append(args))
    torch.nn.utils.parametrizations.weight_norm(layer)
    x = torch.randn(1, 2, 5, 5)
    layer.eval()
    with torch.no_grad():
        close(layer(x), torch.nn.functional.conv2d(x.double(), layer.weight.double(), layer.bias.double()))
    layer.train()
    layer(x).sum().backward()
    assert len(seen) == 2 and layer.parametrizations.weight.original1.grad is not None


def test_frozen_layers_compute_no_gradient_of_themselves():
    layer = layers.Conv2d(2, 2, 3).requires_grad_(False)
    x = torch.randn(1, 2, 5, 5, requires_grad=True)
    made = layer(x)
    assert [t for t in made.grad_fn.saved_tensors if t is not None and t.shape == x.shape] == []
    made.sum().backward()
    assert layer.weight.grad is None and x.grad is not None
