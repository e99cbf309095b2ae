"""Calls whose like was checked before: from the operator and from a layer straight to the launch.

Only tensors of a GPU are signed; here those of the host are, and the CPU device launches them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import warpconv
import warpconv.torch as layers
from warpconv.codegen.errors import WarpconvError
from warpconv.runtime.call import conv, signatures, volume
from warpconv.runtime.torch import functional, operators as ops
from warpconv.runtime.torch.layers import _looked_at as looked_at

from .layers import close, theirs

pytestmark = pytest.mark.filterwarnings("ignore:warpconv runs on the CPU device:RuntimeWarning")


@pytest.fixture
def checked(monkeypatch):
    """Host tensors are signed; the calls that go the checked way."""
    library = signatures.library(torch.zeros(1))

    def sign(self, tensor):
        if tensor.requires_grad and torch.is_grad_enabled() or tensor.is_neg():
            return None
        return tensor.shape, tensor.stride(), tensor.dtype, None

    for name in ("sign", "sign_beside", "sign_output"):
        monkeypatch.setattr(type(library), name, sign)
    monkeypatch.setattr(library, "stream", lambda ordinal: 0)
    conv.clear()
    calls = []
    real = conv._conv2d
    monkeypatch.setattr(conv, "_conv2d", lambda *args: calls.append(1) or real(*args))
    yield calls
    conv.clear()


def test_a_recorded_call_is_checked_once(checked):
    w, b = torch.randn(4, 1, 3, 3, requires_grad=True), torch.randn(4, requires_grad=True)
    options = {"padding": 1, "groups": 4}
    for _ in range(3):
        x = torch.randn(2, 4, 9, 8)
        made = warpconv.conv2d(x, w, b, **options)
        close(made.detach(), theirs(x.double(), w.double(), b.double(), **options).detach())
        assert made.requires_grad
    assert len(checked) == 1
    for more in ({"activation": "relu"}, {"padding_mode": "circular"}, {"stride": 2}):
        made = warpconv.conv2d(x, w, b, **{**options, **more})
        wanted = theirs(x.double(), w.double(), b.double(), **{**options, **{
            name: value for name, value in more.items() if name != "activation"}}).detach()
        close(made.detach(), wanted.relu() if "activation" in more else wanted)
    assert len(checked) == 4 and len(ops._entries) == 4


def test_a_recorded_layers_arguments_are_looked_at_once(checked, monkeypatch):
    """Forward and both gradients come from what is remembered; a layer's attributes may change."""
    looked, real = [], functional._rest_of
    monkeypatch.setattr(functional, "_rest_of", lambda *args: looked.append(1) or real(*args))
    functional._rests.clear()
    looked_at.clear()
    ours, other = (where.Conv2d(4, 4, 3, padding=1, groups=4) for where in (layers, torch.nn))
    other.double().load_state_dict(ours.state_dict())
    for padding in (1, 1, 1, 0):
        ours.padding = other.padding = (padding, padding)
        x = torch.randn(2, 4, 9, 8)
        given, wanted = x.clone().requires_grad_(), x.double().requires_grad_()
        made, exact = ours(given), other(wanted)
        close(made.detach(), exact.detach())
        grad = torch.randn_like(made)
        for a, b in zip(torch.autograd.grad(made, (given, *ours.parameters()), grad),
                        torch.autograd.grad(exact, (wanted, *other.parameters()), grad.double())):
            close(a, b, 4.0)
    assert len(looked) == 2 == len(looked_at) and len(checked) == 2 and len(ops._entries) == 6


@pytest.mark.parametrize("wrong", [True, 1.0])
def test_what_is_equal_to_a_number_is_refused_before_and_after_it(wrong):
    """True and 1.0 are 1 to a table of calls; what is refused leaves nothing there."""
    x, w = torch.randn(1, 2, 5, 5), torch.randn(2, 2, 3, 3, requires_grad=True)
    volume_, w3 = torch.randn(1, 2, 4, 4, 4), torch.randn(2, 2, 3, 3, 3, requires_grad=True)
    layer = layers.Conv2d(2, 2, 3, bias=False)
    for _ in range(2):
        for refused in (lambda: warpconv.conv3d(volume_, w3, groups=wrong), lambda: warpconv.conv2d(x, w, groups=wrong),
                        lambda: warpconv.conv2d(x, w, separable=int(wrong) - 1)):
            with pytest.raises(WarpconvError):
                refused()
        layer.stride = (wrong, wrong)
        with pytest.raises(WarpconvError):
            layer(x)
        layer.stride = (1, 1)
        for made in (warpconv.conv3d(volume_, w3), warpconv.conv2d(x, w), layer(x), layers.Conv3d(2, 2, 3)(volume_)):
            assert made.requires_grad
        ops.conv3d(volume_, w3, None, None, [1] * 3, [0] * 6, [1] * 3, 1, "zeros", 0.0, "auto", "", "auto", None,
                   "nearest")


def test_numbers_in_any_form_are_one_call(checked):
    w = torch.randn(4, 1, 3, 3, requires_grad=True)
    x = torch.randn(2, 4, 9, 8)
    for stride in (2, (2, 2), [2, 2], np.int64(2)):
        warpconv.conv2d(x, w, stride=stride, groups=4)
    assert len(checked) == 1 == len(ops._entries)
    ours = layers.Conv2d(4, 4, 3, padding=1, groups=4)
    made = ours(x)
    ours.padding, ours.stride = [1, 1], [1, 1]          # as PyTorch takes them
    assert torch.equal(made, ours(x))


def test_gradients_of_tensors_with_gaps_are_remembered_as_their_copies(checked):
    w = torch.randn(4, 4, 3, 3, requires_grad=True)
    for _ in range(3):
        warpconv.conv_transpose2d(torch.randn(2, 4, 12, 12)[:, :, 1:10, 2:10], w)
    assert len(ops._entries) == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_a_biass_gradient_is_summed_in_float32(dtype, order):
    """A sum of 5,000 ones in the element type itself would stay at 2048, or 256."""
    layer = layers.Conv2d(2, 2, 1, groups=2).to(dtype)
    x = torch.zeros(2, 2, 50, 50, dtype=dtype).contiguous(memory_format=order)
    layer(x).backward(torch.ones_like(x))
    assert layer.bias.grad.tolist() == torch.full((2,), 5000.0).to(dtype).tolist()
    one = layers.Conv2d(1, 1, 1).to(dtype)          # the parts of two threads are beyond float16
    with torch.no_grad():
        signs = torch.ones(1, 1, 400, 500, dtype=dtype)
        signs[:, :, 200:] = -1
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        one(torch.zeros_like(signs)).backward(signs)
    finally:
        torch.set_num_threads(threads)
    assert one.bias.grad.tolist() == [0.0]


def test_tensors_with_gaps_are_checked_each_time(checked):
    w = torch.randn(4, 1, 3, 3, requires_grad=True)
    for _ in range(2):
        x = torch.randn(2, 4, 12, 12)[:, :, 1:10, 2:10]
        close(warpconv.conv2d(x, w, groups=4).detach(), theirs(x.double(), w.double(), None, groups=4).detach())
    assert len(checked) == 2 and not ops._entries


def test_a_recorded_call_of_volumes_is_checked_once(checked, monkeypatch):
    calls, real = [], volume.conv3d_and_kernel
    monkeypatch.setattr(volume, "conv3d_and_kernel", lambda *args, **named: calls.append(1) or real(*args, **named))
    w, b = torch.randn(4, 1, 3, 2, 3, requires_grad=True), torch.randn(4, requires_grad=True)
    for order in (torch.contiguous_format, torch.channels_last_3d):
        for _ in range(3):
            x = torch.randn(2, 4, 5, 6, 7).contiguous(memory_format=order)
            made = warpconv.conv3d(x, w, b, padding=1, groups=4)
            wanted = torch.nn.functional.conv3d(x.double(), w.double(), b.double(), padding=1, groups=4)
            close(made.detach(), wanted.detach())
            assert made.requires_grad and made.is_contiguous(memory_format=order)
    assert len(calls) == 2 and len(ops._entries) == 2
    for _ in range(2):
        x = torch.randn(2, 4, 5, 8, 8)[..., 1:7]
        close(warpconv.conv3d(x, w, groups=4).detach(),
              torch.nn.functional.conv3d(x.double(), w.double(), groups=4).detach())
    assert len(calls) == 4 and len(ops._entries) == 2
    for _ in range(2):
        for value in (0.5, -1.25):
            x = torch.randn(2, 4, 5, 6, 7)
            wanted = torch.nn.functional.conv3d(
                torch.nn.functional.pad(x.double(), [1] * 6, value=value), w.double(), groups=4)
            close(warpconv.conv3d(x, w, padding=1, groups=4, padding_mode="constant", padding_value=value).detach(),
                  wanted.detach(), 2.0)
    assert len(calls) == 6 and len(ops._entries) == 4


@pytest.mark.parametrize("kind", ["Conv1d", "Conv2d"])
def test_a_layers_call_is_checked_once(checked, kind):
    ours, other = (getattr(where, kind)(4, 4, 3, padding=1, groups=4) for where in (layers, torch.nn))
    ours.eval()
    other.double().load_state_dict(ours.state_dict())
    size = (2, 4, 9, 8)[:2 + int(kind[4])]
    with torch.no_grad():
        for number in range(3):
            x = torch.randn(size)
            close(ours(x), other(x.double()))
            ours.weight.data.add_(1.0)      # a kernel that takes the weight as it is sees every change
            other.weight.data.add_(1.0)
            assert len(checked) == 1, number
        ours(torch.randn(1, *size[1:]))
        assert len(checked) == 2
