"""Calls whose like was checked before: from the operator and from a layer straight to the launch.

Only tensors of a GPU are signed; here those of the host are, and the CPU device launches them."""

from __future__ import annotations

import pytest
import torch

import warpconv
import warpconv.torch as layers
from warpconv.runtime.call import conv, signatures
from warpconv.runtime.torch import operators as ops

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

    monkeypatch.setattr(type(library), "sign", sign)
    monkeypatch.setattr(type(library), "sign_output", sign)
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


def test_tensors_with_gaps_are_checked_each_time(checked):
    w = torch.randn(4, 1, 3, 3, requires_grad=True)
    for _ in range(2):
        x = torch.randn(2, 4, 12, 12)[:, :, 1:10, 2:10]
        close(warpconv.conv2d(x, w, groups=4).detach(), theirs(x.double(), w.double(), None, groups=4).detach())
    assert len(checked) == 2 and not ops._entries


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
