"""convert: which layers, why, in place, and back."""

from __future__ import annotations

import collections
import copy

import numpy as np
import pytest
import torch

import warpconv
import warpconv.torch as layers
from bench.report import environment
from bench.report.files import Report
from bench.studies import networks
from warpconv.codegen.errors import ArgumentError
from warpconv.codegen.hardware import Hardware
from warpconv.runtime.call import kernels
from warpconv.runtime.torch import ahead
from warpconv.torch import estimate, measure

from .layers import close

pytestmark = pytest.mark.filterwarnings("ignore:warpconv runs on the CPU device:RuntimeWarning")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.block = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 7, padding=3, groups=8), torch.nn.BatchNorm2d(8),
                                         torch.nn.Conv2d(8, 4, 1, bias=False))
        self.again = self.block[2]
        self.unused = torch.nn.Conv2d(1, 1, 1)
        self.own = type("Own", (torch.nn.Conv2d,), {})(4, 4, 3)
        self.volume = torch.nn.Conv3d(1, 1, 1)
        self.up = torch.nn.ConvTranspose2d(4, 2, 2, stride=2)
        self.row = torch.nn.Conv1d(2, 2, 4, padding=3, groups=2)

    def forward(self, x):
        x = self.up(self.own(self.block(self.stem(x))))
        return self.row(x.flatten(2))


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def x():
    return torch.randn(2, 3, 16, 16)


def kinds(model):
    return {name: type(module) for name, module in model.named_modules() if isinstance(
        module, torch.nn.modules.conv._ConvNd)}


def test_all_leaves_what_cannot_be_served():
    model = torch.nn.Sequential(torch.nn.ConvTranspose2d(4, 4, 3, dilation=3, output_padding=2, padding=1))
    x = torch.randn(1, 4, 5, 5)
    wanted = model(x).detach()
    row, = layers.convert(model, x, where="all").rows
    assert not row.converted and "not served: output_padding" in row.why
    assert torch.equal(model(x).detach(), wanted)


def test_all_and_back(model, x):
    before, parameters = kinds(model), list(model.parameters())
    model.eval()
    wanted = copy.deepcopy(model).double()(x.double()).detach()
    called = []
    model.block[0].register_forward_hook(lambda *_: called.append(1))
    done = layers.convert(model, x, where="all")
    assert called == [1]
    assert {row.name: row.converted for row in done.rows} == {
        "stem": True, "block.0": True, "block.2": True, "unused": False, "own": False, "volume": False, "up": True,
        "row": True}
    assert type(model.again) is layers.Conv2d and model.again is model.block[2]
    assert all(a is b for a, b in zip(model.parameters(), parameters))
    close(model(x).detach(), wanted, 2.0)
    text = str(done)
    assert "block.0  Conv2d 8->8, 7x7, depthwise" in text and "of the class" in text and "does not come by" in text
    again = layers.convert(model, x, where="all")
    assert not any(row.converted for row in again.rows) and "converted already" in str(again)
    done.undo()
    done.undo()
    assert kinds(model) == before
    close(model(x).detach(), wanted, 2.0)


def test_a_model_stays_in_its_mode_and_its_statistics_are_untouched(model, x):
    model.train()
    model.block[1].eval()
    before = copy.deepcopy(model.state_dict())
    layers.convert(model, (x,), where="all")
    assert model.training and not model.block[1].training and model.block[0].training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_rule_of_ones_own(model, x):
    seen = {}

    def where(name, layer, input):
        seen[name] = None if input is None else tuple(input.shape)
        return layer.kernel_size == (7, 7)

    done = layers.convert(model, x, where=where)
    assert [row.name for row in done.rows if row.converted] == ["block.0"]
    assert seen["block.0"] == (2, 8, 8, 8)
    assert layers.convert(Model(), where=lambda name, layer, input: input is None and name == "stem").rows[0].converted


@pytest.mark.parametrize("training", [False, True])
def test_volumes_are_converted_where_all_are(training, monkeypatch):
    model = torch.nn.Sequential(torch.nn.Conv3d(2, 4, 3, padding=1), torch.nn.Conv3d(4, 4, (3, 1, 3), groups=4))
    model.train(training)
    x = torch.randn(2, 2, 5, 6, 7).contiguous(memory_format=torch.channels_last_3d)
    wanted = copy.deepcopy(model).double()(x.double()).detach()
    done = layers.convert(model, x, where="all")
    assert {type(layer) for layer in model} == {layers.Conv3d} and "Conv3d 4->4, 3x1x3, depthwise" in str(done)
    planned, real = [], kernels.plan_of
    monkeypatch.setattr(kernels, "plan_of", lambda ask: planned.append(ask) or real(ask))
    made = model(x.requires_grad_(training))
    if training:
        made.square().sum().backward()
    assert planned == []
    close(made.detach(), wanted, 2.0)
    done.undo()
    assert {type(layer) for layer in model} == {torch.nn.Conv3d}


def test_volumes_are_left_alone_by_estimate_and_measured():
    model, x = torch.nn.Sequential(torch.nn.Conv3d(1, 1, 3)).eval(), torch.randn(1, 1, 4, 5, 6)
    shape = layers.sizes.shape_of(model[0], x)
    assert shape.input_shape == x.shape and shape.outputs == (2, 3, 4)
    assert estimate.quicker(shape, Hardware.of("sm_90"), tf32=True) == (
        False, "what PyTorch takes for volumes is not known: where='measure'", None, None)
    (row,) = layers.convert(model, x, where="measure").rows
    assert row.converted == (row.ours < estimate.MARGIN * row.theirs) and "measured" in row.why


def test_measured(model, x):
    done = layers.convert(model.eval(), x, where="measure")
    for row in done.rows:
        if row.ours is not None:
            assert row.converted == (row.ours < estimate.MARGIN * row.theirs) and "measured" in row.why
    assert sum(row.ours is not None for row in done.rows) == 5
    training = layers.convert(Model(), x, where="measure")
    assert any("forward and backward" in row.why for row in training.rows)


@pytest.mark.parametrize("whole", [(1e-3, 5e-4), (5e-4, 1e-3)])
@pytest.mark.parametrize("mine, others, quick", [
    ((1e-4, 5e-5), (2e-4, 4e-5), "device"), ((1e-4, 3e-5), (2e-4, 4e-5), "both"), ((2e-4, 3e-5), (2e-4, 4e-5), "none")])
def test_where_the_model_waits_for_the_host(monkeypatch, mine, others, quick, whole):
    """The device's time decides, and where the model waits for the host its time, too; 'graph' asks for the first."""
    monkeypatch.setattr(measure, "in_turn", lambda passes, device: [measure.Times(*mine), measure.Times(*others)])
    monkeypatch.setattr(measure, "whole", lambda *_: measure.Times(*whole))
    for where in ("measure", "graph"):
        model = torch.nn.Sequential(torch.nn.Conv2d(2, 2, 3))
        (row,) = layers.convert(model, torch.randn(1, 2, 5, 5), where=where).rows
        asked = whole[1] > whole[0] and where == "measure"
        taken = quick == "both" or quick == "device" and not asked
        assert row.converted == taken == isinstance(model[0], layers.Conv2d)
        assert ("more of the host" in row.why) == (quick == "device" and asked)
        assert (row.ours, row.theirs) == (mine[0], others[0]) and f"{others[0] / mine[0]:.2g} times" in row.why


def test_layers_that_are_called_several_times_are_measured_at_each(monkeypatch):
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Conv2d(2, 2, 3, padding=1)

        def forward(self, x):
            return self.layer(self.layer(x)[..., :4])

    monkeypatch.setattr(measure, "in_turn", lambda passes, device: [measure.Times(1.0, 1.0), measure.Times(2.0, 1.0)])
    (row,) = layers.convert(Twice(), torch.randn(1, 2, 5, 5), where="measure").rows
    assert (row.converted, row.ours, row.theirs) == (True, 2.0, 4.0) and "in 2 calls" in row.why


@pytest.mark.parametrize("where", ["measure", "graph", "all"])
def test_under_autocast_layers_are_seen_as_they_are_called(where, monkeypatch):
    """Autocast is asked where the layer is: regions of a model without it are seen as such."""
    class Parts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = (torch.nn.Conv2d(2, 2, 3) for _ in range(3))

        def forward(self, x):
            x = self.first(x)
            with torch.autocast("cpu", enabled=False):
                x = self.second(x.float())
            return self.third(x)

    compiled = []
    monkeypatch.setattr(ahead, "build", lambda uses, *_, **__: compiled.extend(
        (use.operation.value, use.shape.dtype.value) for use in uses))
    model = Parts()
    with torch.autocast("cpu", torch.bfloat16):
        done = layers.convert(model, torch.randn(1, 2, 9, 9), where=where)
    assert not any(row.why.startswith("not served") for row in done.rows), str(done)
    assert [dtype for operation, dtype in compiled if operation == "forward"][:3] == ["bfloat16", "float32", "bfloat16"]


def test_kernels_are_made_together_before_they_are_measured(model, x, monkeypatch):
    order = []
    monkeypatch.setattr(ahead, "build", lambda *_, **__: order.append("built"))
    monkeypatch.setattr(measure, "beside", lambda *_: order.append("measured") or measure.Beside(
        measure.Times(1.0, 1.0), measure.Times(1.0, 1.0), ""))
    layers.convert(model, x, where="measure")
    assert order[0] == "built" and "measured" in order


def test_a_call_of_the_whole_model_leaves_no_trace():
    """What is timed of a model in training mode: statistics, gradients and drawn numbers are as before."""
    class Losses(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.Dropout())

        def forward(self, x, scale=1.0):
            return {"loss": self.body(x).mean() * scale, "more": [self.body[0](x), 3]}

    model = Losses()
    before = copy.deepcopy(model.state_dict())
    once = measure._step(model, (torch.randn(1, 2, 5, 5),), {"scale": 2.0})
    once()
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(parameter.grad is None for parameter in model.parameters())
    assert measure.whole(model, (), {}, torch.device("cpu")) is None


def test_on_the_cpu_device_nothing_is_quicker_by_estimate(model, x):
    assert not any(row.converted for row in layers.convert(model, x).rows)


@pytest.mark.parametrize("options, tf32, quicker", [
    ({"c": 96, "k": 96, "groups": 96, "r": 7, "s": 7, "padding": 3}, True, True),
    ({"c": 96, "k": 96, "groups": 96, "r": 7, "s": 7, "padding": 3, "dtype": "float16", "layout": "NHWC"}, True, True),
    ({"c": 96, "k": 96, "groups": 96, "r": 3, "s": 3, "padding": 1, "dtype": "bfloat16"}, True, True),
    ({"c": 256, "k": 256, "r": 3, "s": 3, "padding": 1}, True, False),
    ({"c": 256, "k": 256, "r": 3, "s": 3, "padding": 1}, False, True),
    ({"c": 256, "k": 64, "r": 1, "s": 1, "layout": "NHWC"}, False, True),
    ({"c": 256, "k": 64, "r": 1, "s": 1, "dtype": "float16", "layout": "NHWC"}, True, False)])
def test_the_estimate(options, tf32, quicker):
    """As measured: depthwise layers are quicker in every format, dense ones of float32 where PyTorch may not take
    TF32."""
    shape = warpconv.ConvShape(n=64, h=56, w=56, **options)
    taken, why, ours, theirs = estimate.quicker(shape, Hardware.of("sm_90"), tf32=tf32)
    assert taken is quicker and why.startswith("estimated") and (ours < estimate.MARGIN * theirs) is quicker


@pytest.mark.long
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype, precision, most", [("float16", "float32", 1.15), ("float32", "float32", 1.05),
                                                    ("float32", "tf32", 1.1)])
def test_estimates_beside_what_was_measured(dtype, precision, layout, most):
    """All layers of torchvision's networks at batch 32, taken as the estimate says, take at most so many times what the
    quicker of the two took on an H200, layer by layer. Precision is PyTorch's: ours is the default."""
    rows = {name: Report.open(name, environment.ROOT / "docs/results" / name).rows
            for name in ("networks", "networks_float32")}
    mine = {key: row for key, row in rows["networks" if dtype == "float16" else "networks_float32"].items()
            if row["status"] == "ok" and row["layout"] == layout and row["batch"] == 32
            and row.get("precision", "float32") == "float32"}
    times = []
    for key, row in mine.items():
        beside = row if precision == "float32" else rows["networks_float32"].get(key.replace("float32/", "tf32/", 1))
        if beside is None or beside["status"] != "ok":
            continue
        shape = networks.shape_of(tuple(row["layer"]), 32, layout, dtype)
        taken = estimate.quicker(shape, Hardware.of("sm_90a"), tf32=precision == "tf32")[0]
        times.append((row["ours"] if taken else beside["cudnn"], row["ours"], beside["cudnn"]))
    assert len(times) > 150
    decided, best = sum(time for time, *_ in times), sum(min(pair) for _, *pair in times)
    assert decided < most * best, (decided, best)


class Beside(torch.nn.Module):
    """A layer that is served beside one of another type or device."""

    def __init__(self, **of):
        super().__init__()
        self.served, self.other, self.of = torch.nn.Conv2d(2, 2, 3), torch.nn.Conv2d(2, 2, 3, **of), of

    def forward(self, x):
        self.other(x.to(**self.of))
        return self.served(x)


@pytest.mark.parametrize("where", ["all", "measure", "estimate", lambda *_: True],
                         ids=["all", "measure", "estimate", "rule"])
@pytest.mark.parametrize("of, words", [({"dtype": torch.float64}, "no kernels for float64"),
                                       ({"device": "meta"}, "device meta")], ids=["float64", "meta"])
def test_what_is_not_served_stays(where, of, words):
    """Left alone, and the table says so, whoever asks for it."""
    model, asked = Beside(**of), where == "all" or callable(where)
    for example in (torch.randn(1, 2, 5, 5), None)[:1 + asked]:
        done = layers.convert(model, example, where=where)
        rows = {row.name: row for row in done.rows}
        assert type(model.other) is torch.nn.Conv2d and not rows["other"].converted
        assert rows["other"].why.startswith("not served") and words in rows["other"].why
        assert rows["served"].converted == (type(model.served) is layers.Conv2d) and rows["served"].converted >= asked
        done.undo()


@pytest.mark.parametrize("training", [False, True])
def test_kernels_are_made_ahead(model, x, monkeypatch, training):
    model.train(training)
    layers.convert(model, x, where="all")
    planned = []
    real = kernels.plan_of
    monkeypatch.setattr(kernels, "plan_of", lambda ask: planned.append(ask) or real(ask))
    with torch.set_grad_enabled(training):
        made = model(x.requires_grad_(training))
        if training:
            made.square().sum().backward()
    assert planned == []


@pytest.mark.parametrize("arguments, error", [
    ({"where": "often"}, warpconv.ArgumentError), ({"where": "measure"}, warpconv.ArgumentError),
    ({"where": "graph"}, warpconv.ArgumentError), ({}, warpconv.ArgumentError)])
def test_mistakes(model, arguments, error):
    with pytest.raises(error):
        layers.convert(model, **arguments)
    with pytest.raises(warpconv.ArgumentTypeError):
        layers.convert([model])


class Named(torch.nn.Module):
    """A model whose arguments have names alone, as many from libraries of models have, and its layer's, too."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(2, 2, 3)

    def forward(self, *, pixel_values, scale=1.0):
        return self.layer(input=pixel_values) * scale


def test_examples_by_name():
    model, seen = Named(), []
    for example in ({"pixel_values": torch.randn(1, 2, 5, 6)},
                    collections.UserDict(pixel_values=torch.randn(1, 2, 7, 6), scale=2.0)):
        layers.convert(model, example, where=lambda name, layer, input: bool(seen.append(tuple(input.shape))))
    assert seen == [(1, 2, 5, 6), (1, 2, 7, 6)]


@pytest.mark.parametrize("example", [
    np.ones((1, 2, 5, 5), np.float32), (1, 2, 5, 5), (np.ones((1, 2, 5, 5), np.float32),), 5, "x", {"input": 3},
    {"pixels": torch.ones(1, 2, 5, 5)}, {3: torch.ones(1, 2, 5, 5)}, (torch.ones(1, 2, 5, 5),) * 2,
    [[torch.ones(1, 2, 5, 5)]], object()],
    ids=["array", "sizes", "arrays", "number", "text", "named number", "unknown name", "no name", "two", "nested",
         "object"])
def test_examples_that_cannot_be(example):
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 2, 3)).train()
    with pytest.raises(warpconv.ArgumentTypeError, match=r"\(example = .*a mapping of keyword arguments") as caught:
        layers.convert(model, example, where="all")
    assert caught.value.argument == "example" and model.training and not model[0]._forward_pre_hooks


def test_undo_leaves_layers_of_another_class_and_says_so():
    """A parametrization makes a class of its own of the layer's."""
    model = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3), torch.nn.Conv2d(8, 8, 3))
    done = layers.convert(model, where="all")
    torch.nn.utils.parametrizations.weight_norm(model[0])
    x = torch.randn(1, 4, 9, 9)
    before = model(x)
    with pytest.raises(ArgumentError, match="another class.*ParametrizedConv2d.*remove_parametrizations"):
        done.undo()
    assert type(model[1]) is torch.nn.Conv2d and torch.allclose(model(x), before, atol=1e-5)
    torch.nn.utils.parametrize.remove_parametrizations(model[0], "weight")
    done.undo()
    assert type(model[0]) is torch.nn.Conv2d and torch.allclose(model(x), before, atol=1e-5)
