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
from warpconv.runtime.torch import prepared

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
    "ConvTranspose3d": [((4, 6, 3), {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}),
                        ((3, 2, (2, 1, 3)), {"stride": (1, 2, 1), "dilation": (2, 1, 1), "bias": False})],
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
    with pytest.raises(warpconv.ArgumentTypeError, match="torch.jit.script does not take warpconv's layers.*restore"):
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


def test_a_weight_that_gets_the_address_of_one_that_is_gone_is_prepared_anew(dense):
    """Module.bfloat16() and back: PyTorch counts no version, and its allocator may give the same memory again."""
    layer, x, _ = dense
    right(layer, x)
    for _ in range(12):
        layer.weight.copy_(torch.randn_like(layer.weight))
        right(layer, x)
        layer.bfloat16().half()
        assert torch.equal(layer(x), warpconv.conv2d(x, layer.weight, layer.bias, padding=1))


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


WRONG = [torch.uint8, torch.int32, torch.float16, torch.float64, torch.complex64]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", WRONG, ids=str)
def test_an_input_of_another_type_than_the_weights(name, dtype):
    """PyTorch's layers raise; the functions would make pixels of pixels."""
    ours, theirs, x = pair(name, *CASES[name][0])
    wrong = (x.abs() * 100).to(dtype)
    words = (r"\.real and \.imag" if dtype.is_complex else
             rf"torch\.float32 \(input = {dtype}\); input\.to\(torch\.float32\)")
    for training in (True, False):
        ours.train(training)
        for grad in (True, False):
            for cast in (False, True):
                if cast and dtype is torch.float16:     # autocast brings both to its type
                    continue
                with torch.set_grad_enabled(grad), torch.autocast("cpu", torch.bfloat16, enabled=cast):
                    with pytest.raises(RuntimeError):
                        theirs.float()(wrong)
                    with pytest.raises(warpconv.ArgumentTypeError, match=words) as caught:
                        ours(wrong)
                    assert caught.value.argument == "input"
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert ours(x.half()).dtype is torch.bfloat16


def test_a_compiled_layers_input_of_another_type():
    torch._dynamo.reset()
    compiled = torch.compile(layers.Conv2d(2, 2, 3).eval(), fullgraph=True, backend="aot_eager")
    x = torch.randn(1, 2, 5, 5)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert compiled(x.half()).dtype is torch.bfloat16
    with torch.no_grad(), pytest.raises(Exception, match=r"input = torch\.uint8.*input\.to\(torch\.float32\)"):
        compiled(x.to(torch.uint8))


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_inputs_that_are_no_numbers_of_a_kernel():
    layer, x = layers.Conv2d(2, 2, 3), torch.randn(1, 2, 5, 5)
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            with pytest.raises(warpconv.ArgumentTypeError, match="dequantize"):
                layer(torch.quantize_per_tensor(x, 0.1, 0, torch.quint8))
            with pytest.raises(warpconv.ArgumentTypeError, match="takes a tensor .input = 'ndarray'"):
                layer(x.numpy())
            with pytest.raises(warpconv.ArgumentTypeError, match="input = torch.float16"):
                layers.Conv2d(2, 2, 3, device="meta")(x.half().to("meta"))


def test_a_chunk_of_another_type_than_the_weights():
    layer, x = layers.Conv1d(2, 2, 3, padding="causal"), torch.randn(1, 2, 5)
    with torch.no_grad(), pytest.raises(warpconv.ArgumentTypeError, match="input = torch.float16"):
        layer.stream(x.half())


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("axes", [1, 2])
def test_transposed_layers_refuse_by_the_callers_names(axes, grad):
    """They are data gradients to the operator, whose input is grad_output."""
    layer, sizes = getattr(layers, f"ConvTranspose{axes}d")(3, 4, 2, padding=1), (7, 8)[:axes]
    refused = [(layer, torch.randn(1, 5, *sizes), "weight has 3 channels and input has 5"),
               (layer, torch.randn(1, 3, *(1,) * axes), "empty output.*padding"),
               (copy.deepcopy(layer).double(), torch.randn(1, 3, *sizes).double(), "input = 'float64'"),
               (copy.deepcopy(layer).requires_grad_(False).to(torch.float64), torch.randn(1, 3, *sizes).double(),
                "input = 'float64'")]
    for given, x, words in refused:
        with torch.set_grad_enabled(grad), pytest.raises(warpconv.WarpconvError, match=words) as caught:
            given(x)
        assert "grad_output" not in str(caught.value) and "input_size" not in str(caught.value)


class Holder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(2, 1, 3, 3))
        self.kernel = warpconv.specialize(warpconv.ConvShape(c=2, h=6, w=7, k=2, r=3, s=3, groups=2), device="cpu")

    def forward(self, x):
        return self.kernel(x, self.weight)


def test_copies_of_modules_that_hold_a_kernel():
    module, x = Holder(), torch.randn(1, 2, 6, 7)
    made = copy.deepcopy(module)
    with torch.no_grad():
        made.weight.mul_(2.0)
        assert torch.equal(made(x), 2.0 * module(x))
    with pytest.raises(warpconv.ArgumentTypeError, match="not pickled"):
        torch.save(module, io.BytesIO())


def test_frozen_layers_compute_no_gradient_of_themselves():
    layer = layers.Conv2d(2, 2, 3).requires_grad_(False)
    x = torch.randn(1, 2, 5, 5, requires_grad=True)
    made = layer(x)
    assert [t for t in made.grad_fn.saved_tensors if t is not None and t.shape == x.shape] == []
    made.sum().backward()
    assert layer.weight.grad is None and x.grad is not None


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.parametrize("modes", [True, False])
def test_fused_steps_are_seen(optimizer, modes):
    """PyTorch does not count them as changes of the weight, which was prepared before."""
    torch.manual_seed(5)
    layer = warpconv.torch.Conv2d(64, 64, 3, padding=1).bfloat16().to(memory_format=torch.channels_last).eval()
    x = torch.randn(1, 64, 6, 6).bfloat16().to(memory_format=torch.channels_last)
    steps = getattr(torch.optim, optimizer)(layer.parameters(), lr=0.1, fused=True)
    for _ in range(2):
        with torch.no_grad():
            layer(x), layer(x)                  # prepared at the second call
            version = layer.weight._version
        layer.train(modes)                      # or trained as it is, as layers are whose norms are frozen
        layer(x).float().square().mean().backward()
        steps.step()
        layer.eval() if modes else None
        assert layer.weight._version == version, "then this test is not needed"
        with torch.no_grad():
            made = layer(x)
            expected = torch.nn.functional.conv2d(x.double(), layer.weight.double(), layer.bias.double(), padding=1)
        assert (made.double() - expected).abs().max() < 0.02 * expected.abs().max()


def test_frozen_weights_are_read_as_they_are_prepared_where_a_graph_is_recorded(monkeypatch):
    """As on a GPU while a stream is captured; of layers that are not frozen the weight itself is read there."""
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Conv2d(64, 40, 3, padding=1)).half().eval()
    x = torch.randn(1, 64, 6, 7).half().to(memory_format=torch.channels_last)
    for frozen in (False, True):
        done = layers.convert(model, x, where="all", frozen=frozen)
        layer = model[0]
        assert layer.frozen is frozen and copy.deepcopy(layer).frozen is frozen
        with torch.no_grad():
            wanted = model(x)
            monkeypatch.setattr(prepared, "is_captured", lambda weight: True)
            assert torch.equal(model(x), wanted)
            assert len(layers.modules._read_by_graphs.get(layer, ())) == frozen
            layer.weight.mul_(2.0)              # which was not prepared before the graph: read as it is
            assert not torch.equal(model(x), wanted)
            assert len(layers.modules._read_by_graphs.get(layer, ())) == frozen
            monkeypatch.undo()
            layer.weight.mul_(0.5)
            assert torch.equal(model(x), wanted)
            kept = list(layers.modules._read_by_graphs.get(layer, ()))
        assert pickle.loads(pickle.dumps(layer)) not in layers.modules._read_by_graphs
        done.undo()
        assert "frozen" not in layer.__dict__ and type(layer) is torch.nn.Conv2d
        assert layers.modules._read_by_graphs.get(layer, []) == kept         # graphs may still be replayed
        pickle.dumps(model)
