"""What people who train and serve networks ran into: biases that are no parameters, weights trained out of a layer's
sight, parts of complex tensors, copies that no Conversion knows."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn.utils import parametrize, prune

import warpconv
import warpconv.torch

pytestmark = pytest.mark.filterwarnings("ignore:warpconv runs on the CPU device:RuntimeWarning")


def as_buffer(layer):
    bias = layer.bias.detach()
    del layer.bias
    layer.register_buffer("bias", bias)


def parametrized(layer):
    class Doubled(torch.nn.Module):
        def forward(self, bias):
            return 2 * bias

    parametrize.register_parametrization(layer, "bias", Doubled())


@pytest.mark.parametrize("change", [as_buffer, lambda layer: prune.l1_unstructured(layer, "bias", amount=1),
                                    parametrized])
@pytest.mark.parametrize("kind, size", [("Conv1d", (2, 3, 8)), ("Conv2d", (2, 3, 8, 8)),
                                        ("ConvTranspose2d", (2, 3, 5, 5))])
def test_a_bias_that_is_no_parameter_is_added(kind, size, change):
    torch.manual_seed(3)
    layer, x = getattr(torch.nn, kind)(3, 4, 3), torch.randn(size)
    with torch.no_grad():
        layer.bias.add_(3)
    change(layer)
    expected = layer(x).detach()
    if change is parametrized:      # which gives the layer a class of its own
        ours = getattr(warpconv.torch, kind)(3, 4, 3)
        ours.load_state_dict({name.replace("parametrizations.bias.original", "bias"): value
                              for name, value in layer.state_dict().items()})
        change(ours)
        layer = ours
    else:
        warpconv.torch.convert(layer, where="all")
    for training in (True, False):
        layer.train(training)
        with torch.no_grad():
            assert torch.allclose(layer(x), expected, atol=1e-5)


def trained(model, step, x):
    """The output after some steps of a fused optimizer, which counts no versions."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, fused=True)
    for _ in range(3):
        optimizer.zero_grad()
        step(x).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            made = model(x)
    return made


@pytest.mark.parametrize("kind", ["compiled", "traced"])
def test_weights_that_a_graph_trained_are_prepared_again(kind):
    torch.manual_seed(0)
    stock, x = torch.nn.Conv2d(16, 16, 3, padding=1).eval(), torch.randn(1, 16, 8, 8)
    ours = copy.deepcopy(stock)
    warpconv.torch.convert(ours, where="all")
    step = torch.compile(ours, backend="aot_eager") if kind == "compiled" else torch.jit.trace(ours, x)
    assert torch.allclose(trained(ours, step, x), trained(stock, stock, x), atol=1e-5)


def test_weights_that_another_layer_trained_are_prepared_again():
    torch.manual_seed(0)
    learner, actor = (torch.nn.Conv2d(16, 16, 3, padding=1) for _ in range(2))
    actor.weight, actor.bias = learner.weight, learner.bias
    warpconv.torch.convert(torch.nn.ModuleList([learner, actor]), where="all")
    actor.eval()
    x, optimizer = torch.randn(1, 16, 8, 8), torch.optim.AdamW(learner.parameters(), 1e-2, fused=True)
    for _ in range(3):
        optimizer.zero_grad()
        learner(x).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            made = actor(x)
    assert torch.allclose(made, torch.nn.functional.conv2d(x, actor.weight, actor.bias, padding=1), atol=1e-5)


def test_a_teacher_whose_weights_are_not_trained_keeps_its_prepared_ones(monkeypatch):
    from warpconv.runtime.call.kernel import Kernel
    prepared, prepare = [], Kernel.prepare

    def counted(self, *args, **named):
        prepared.append(self)
        return prepare(self, *args, **named)

    monkeypatch.setattr(Kernel, "prepare", counted)
    student, teacher = (warpconv.torch.Conv2d(16, 16, 3, padding=1) for _ in range(2))
    teacher.eval().requires_grad_(False)
    x = torch.randn(4, 16, 16, 16, dtype=torch.float16)
    student.half(), teacher.half()
    for _ in range(3):
        (student(x) - teacher(x)).float().square().mean().backward()
    assert len(prepared) == 1


@pytest.mark.parametrize("kind", ["Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"])
def test_parts_of_complex_tensors(kind):
    """Their gradients and they themselves are marked as negated, and memory holds the opposite."""
    torch.manual_seed(1)
    axes = int(kind[-2])
    stock = [getattr(torch.nn, kind)(3, 3, 3) for _ in range(2)]
    ours = copy.deepcopy(stock)
    warpconv.torch.convert(torch.nn.ModuleList(ours), where="all")
    x = torch.randn(2, 3, *(5,) * axes, requires_grad=True)
    found = []
    for real, imaginary in (stock, ours):
        z = torch.complex(real(x), imaginary(x)).conj() * torch.exp(torch.tensor(1j))
        found.append(torch.autograd.grad(z.imag.sum(), [x, real.weight, imaginary.weight]))
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(*found))
    negated = torch.fft.fft(torch.randn(2, 3, *(5,) * axes)).conj().imag
    assert negated.is_neg()
    for training in (True, False):
        with torch.set_grad_enabled(training):
            assert torch.allclose(ours[0].train(training)(negated), stock[0](negated), atol=1e-4)


def test_restore_gives_any_models_layers_back():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.ConvTranspose2d(4, 2, 2))
    done = warpconv.torch.convert(model, where="all", precision="tf32")
    other, x = copy.deepcopy(model), torch.randn(1, 3, 8, 8)
    done.undo()
    with pytest.raises(warpconv.ArgumentTypeError, match="restore"):
        torch.jit.script(other)
    assert warpconv.torch.restore(other) == ["0", "2"] and warpconv.torch.restore(other) == []
    assert [type(layer) for layer in other] == [type(layer) for layer in model]
    assert torch.equal(torch.jit.script(other)(x), model(x)) and not hasattr(other[0], "precision")
    causal = torch.nn.Sequential(warpconv.torch.Conv1d(3, 3, 3, padding="causal"))
    assert warpconv.torch.restore(causal) == [] and type(causal[0]) is warpconv.torch.Conv1d
    with pytest.raises(warpconv.ArgumentTypeError, match="module"):
        warpconv.torch.restore([model])


def test_a_seeded_run_is_the_same_after_measuring():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 3), torch.nn.Dropout())
    before = torch.get_rng_state()
    warpconv.torch.convert(model, torch.randn(1, 3, 8, 8, generator=torch.Generator()), where="measure")
    assert torch.equal(torch.get_rng_state(), before)


def test_chunks_are_for_causal_layers():
    for numbers in ({"padding": 1}, {"padding": "causal", "stride": 2}):
        with pytest.raises(warpconv.ArgumentError, match="causal layers of stride 1"):
            warpconv.torch.Conv1d(4, 4, 3, **numbers).stream(torch.randn(2, 4, 8))
    with pytest.raises(warpconv.ShapeError, match="2 or 3 are needed"):
        warpconv.torch.ConvTranspose1d(4, 4, 3)(torch.randn(5))
