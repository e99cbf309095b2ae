"""A PyTorch module as named layers, and its convolutions from a pack inside PyTorch."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import warpconv
from warpconv.cli import cli
from warpconv.codegen.spec import Operation
from warpconv.runtime.accuracy.reference import reference

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def torchvision():
    try:
        import torchvision
    except Exception as error:      # what torch and torchvision of other versions raise is no ImportError
        pytest.skip(f"torchvision cannot be imported: {type(error).__name__}: {error}")
    return torchvision


def steps(layer):
    return ",".join(step.value for step in layer.epilogue)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 4, 3, padding="same", bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.b = nn.Conv2d(4, 8, (3, 2), stride=(1, 2), padding=(1, 0), dilation=2, groups=2)
        self.up = nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1)
        self.line = nn.Conv1d(4, 5, 3, padding=2)
        self.solid = nn.Conv3d(1, 1, 3)

    def forward(self, x):
        y = nn.functional.relu6(self.norm(self.a(x)))
        y = y + nn.functional.hardswish(self.a(x))              # the same module twice
        y = nn.functional.leaky_relu(self.b(y), 0.25)
        y = nn.functional.conv2d(y, self.up.weight[:, :, :1, :1].transpose(0, 1).repeat(1, 1, 1, 1))
        z = self.solid(y[:, None])
        return self.line(self.up(y.repeat(1, 2, 1, 1))[:, :, 0]).clamp(min=-0.5, max=1.0), z


def test_layers_are_called_as_their_modules():
    torch.manual_seed(0)
    net = Net().train()
    found = warpconv.layers_of(net, torch.randn(2, 3, 12, 13))
    assert net.training and net.norm.training               # as it was
    names = [layer.node for layer in found]
    assert names[:3] == ["a", "a:2", "b"] and names[-2:] == ["up", "line"] and len(names) == 7
    assert found.left_out == () and found["solid"].axes == 3
    assert found["solid"].shape.taps == (3, 3, 3) and found["solid"].arrays().weight.shape == (1, 1, 3, 3, 3)
    # the second call's kernel adds the first one's result: activation first, then the residual
    assert [steps(found[name]) for name in ("a", "a:2", "b", "up", "line")] == [
        "bias,relu6", "hardswish,residual", "bias,expr(where(v < 0.0, 0.25 * v, v))", "bias", "bias,clamp(-0.5,1.0)"]
    assert found["up"].operation is Operation.DATA_GRADIENT and found["line"].axes == 1
    assert found["b"].shape.dilation == (2, 2) and found["b"].shape.stride == (1, 2)
    assert found["up"].shape.image == (24, 12) or found["up"].shape.h % 2 == 0


def test_batch_norm_is_in_the_filter():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
    net[1].running_mean.normal_(), net[1].running_var.uniform_(0.5, 2.0), net[1].weight.data.normal_()
    x = torch.randn(2, 3, 9, 8)
    (layer,) = warpconv.layers_of(net, x)
    held = layer.arrays()
    ours = reference(x.numpy(), held.weight, layer.shape, bias=held.bias, epilogue=layer.epilogue).output
    exact = net.double().eval()(x.double()).detach().numpy()
    np.testing.assert_allclose(ours, exact, rtol=0, atol=1e-6 * np.abs(exact).max())


@pytest.mark.parametrize("module", [
    nn.Tanh(), nn.Sigmoid(), nn.Hardsigmoid(), nn.ELU(0.5), nn.Softplus(), nn.Mish(), nn.GELU(), nn.GELU("tanh"),
    nn.Hardswish(), nn.LeakyReLU(0.3), nn.SiLU(), nn.ReLU6(), nn.Hardtanh(-2, 0.5)], ids=str)
def test_activations_are_steps(module):
    torch.manual_seed(1)
    net, x = nn.Sequential(nn.Conv2d(3, 4, 3), module), torch.randn(2, 3, 9, 8)
    (layer,) = warpconv.layers_of(net, x)
    held = layer.arrays()
    assert len(layer.epilogue) == 2
    ours = reference(x.numpy(), held.weight, layer.shape, bias=held.bias, epilogue=layer.epilogue)
    exact = net.double()(x.double()).detach().numpy()
    assert (np.abs(ours.output - exact) <= ours.bound + 1e-7).all()


@pytest.mark.parametrize("module", [nn.SELU(), nn.Softplus(2.0), nn.Tanhshrink()], ids=str)
def test_activations_that_are_no_steps(module):
    (layer,) = warpconv.layers_of(nn.Sequential(nn.Conv2d(3, 4, 3), module), torch.randn(2, 3, 9, 8))
    assert steps(layer) == "bias"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_modules(dtype):
    net = nn.Conv2d(3, 8, 3).to(getattr(torch, dtype))
    (layer,) = warpconv.layers_of(net, torch.randn(1, 3, 9, 8).to(getattr(torch, dtype)))
    held = layer.arrays().weight
    assert layer.shape.dtype.value == dtype == held.dtype.name
    np.testing.assert_array_equal(held.astype(np.float32), net.weight.detach().float().numpy())
    (other,) = warpconv.layers_of(nn.Conv2d(3, 8, 3), torch.randn(1, 3, 9, 8), dtype=dtype, layout="NHWC")
    assert (other.shape.dtype.value, other.shape.layout.value) == (dtype, "NHWC")


def test_what_changes_in_place_is_followed():
    """The value that relu_ leaves is what comes after it; its old one is nobody's."""
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Conv2d(3, 3, 1, bias=False), nn.Conv2d(3, 3, 1, bias=False)

        def forward(self, x):
            y = self.one(x)
            y.relu_()
            return self.two(y) + y

    first, second = warpconv.layers_of(InPlace(), torch.randn(1, 3, 5, 5))
    assert (steps(first), first.folded) == ("relu", ("relu_",))
    assert second.input == first.output == second.residual and steps(second) == "residual"


@pytest.mark.parametrize("module, inputs, error, words", [
    (3, torch.ones(1), warpconv.ArgumentTypeError, "takes a module"),
    (nn.Conv2d(3, 4, 3), torch.ones(1, 5, 9, 9), warpconv.ArgumentError, "torch.export does not take"),
    (nn.Conv2d(3, 4, 3), (), warpconv.ArgumentError, "torch.export does not take")])
def test_what_cannot_be_exported(module, inputs, error, words):
    with pytest.raises(error, match=words):
        warpconv.layers_of(module, inputs)


def test_torchvision_by_name(tmp_path):
    torchvision()
    found = warpconv.read_model("torchvision:resnet18", {"batch": 8})
    assert len(found) == 20 and found["conv1"].shape.n == 8 and found.left_out == ()
    assert steps(found["layer1.0.conv1"]) == "bias,relu" and not found[0].constant
    done = CliRunner().invoke(cli, ["explain", "torchvision:resnet18", "--dtype", "float16", "--layout", "NHWC"])
    assert done.exit_code == 0 and "layer4.1.conv2" in done.output and "residual" in done.output
    for words, told in ((["torchvision:resnet19"], "resnet18"), (["torchvision:resnet18", "--dim", "size=3"], "batch"),
                        (["torchvision:r3d_18"], "torch.export does not take")):
        done = CliRunner().invoke(cli, ["explain", *words])
        assert done.exit_code == 2 and told in done.output, done.output


@pytest.mark.long
def test_the_example_runs_a_model_from_its_pack(tmp_path):
    script = example("model_in_torch")
    torch.manual_seed(0)
    worst, served = script.compare(script.drawn(script.Small()), torch.randn(1, 3, 16, 16), tmp_path)
    assert served == 6 and worst < 1e-5


@pytest.mark.long
def test_a_network_of_torchvision_runs_from_its_pack(tmp_path):
    models, script = torchvision().models, example("model_in_torch")
    torch.manual_seed(0)
    worst, served = script.compare(script.drawn(models.mobilenet_v2(weights=None, width_mult=0.25)),
                                   torch.randn(1, 3, 32, 32), tmp_path)
    assert served == 52 and worst < 1e-4


def test_layers_that_are_warpconv_s_already_are_left_out_in_words():
    import warpconv.torch
    model = nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3))
    x = torch.randn(1, 4, 9, 9)
    done = warpconv.torch.convert(model, where="all")
    found = warpconv.layers_of(model, x)
    assert len(found) == 0 and len(found.left_out) == 2
    assert "undo()" in found.left_out[0].reason
    done.undo()
    assert len(warpconv.layers_of(model, x)) == 2


def test_the_example_runs_a_model_whose_argument_is_called_input(tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    worst, served = example("model_in_torch").compare(model, torch.randn(1, 3, 8, 8), tmp_path)
    assert served == 1 and worst < 1e-5
