"""Calls that are no operators, while PyTorch writes down what is called: refused, or a graph would hold memory that
nobody fills."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

import warpconv

X, W = torch.randn(2, 4, 9, 10), torch.randn(4, 4, 3, 3)
LAYER = warpconv.ConvShape(n=2, c=4, h=9, w=10, k=4, r=3, s=3)
CALLS = {"correlate": lambda x: warpconv.correlate(x, [[1, 2], [3, 4]], axes=(-2, -1), device="cpu"),
         "gaussian_filter": lambda x: warpconv.gaussian_filter(x, 1, axes=(-2, -1), device="cpu"),
         "kernel": lambda x: warpconv.specialize(LAYER, device="cpu")(x, W)}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_operator_is_refused(name):
    call = CALLS[name]
    call(X)             # nor may a call that is remembered be recorded
    for record in (lambda: torch.jit.trace(call, X, check_trace=False), lambda: make_fx(call)(X)):
        with pytest.raises(warpconv.ArgumentTypeError, match="PyTorch records what is called"):
            record()


def test_operators_are_recorded():
    def call(x):
        return warpconv.conv2d(x, W, device="cpu")

    for graph in (torch.jit.trace(call, X, check_trace=False), make_fx(call)(X)):
        torch.testing.assert_close(graph(2 * X), call(2 * X))


@pytest.mark.parametrize("name", CALLS)
def test_a_mode_that_only_looks_is_no_recorder(name):
    wanted = CALLS[name](X)
    with FlopCounterMode(display=False):
        torch.testing.assert_close(CALLS[name](X), wanted)
