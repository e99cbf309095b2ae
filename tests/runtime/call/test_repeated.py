"""Gradients, transposed layers and volumes: what is remembered of a call, and what is asked again."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warpconv
from tests import checks
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.runtime.call import conv, kernels

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
RNG = np.random.default_rng(5)


def drawn(*sizes: int) -> np.ndarray:
    return RNG.standard_normal(sizes).astype(np.float32)


def functions() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...]]]:
    """Name -> the function, its arguments (arrays, sizes), and the sizes of the result."""
    x, w, volume, cube = drawn(2, 4, 6, 7), drawn(4, 1, 3, 3), drawn(1, 2, 4, 5, 6), drawn(2, 1, 3, 3, 3)
    return {
        "conv2d_input": (warpconv.conv2d_input, (x.shape, w, x), x.shape),
        "conv2d_weight": (warpconv.conv2d_weight, (x, w.shape, drawn(*x.shape)), w.shape),
        "conv_transpose2d": (warpconv.conv_transpose2d, (x, w), x.shape),
        "conv3d": (warpconv.conv3d, (volume, cube), volume.shape),
        "conv3d_input": (warpconv.conv3d_input, (volume.shape, cube, volume), volume.shape),
        "conv3d_weight": (warpconv.conv3d_weight, (volume, cube.shape, drawn(*volume.shape)), cube.shape)}


def others(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Other arrays of the same sizes."""
    return tuple(drawn(*value.shape) if isinstance(value, np.ndarray) else value for value in arguments)


def layer(arguments: tuple[Any, ...]) -> dict[str, Any]:
    depthwise = next(value.shape[1] for value in arguments if isinstance(value, np.ndarray) and value.shape[1] > 1)
    return {"padding": 1, "groups": depthwise, "device": "cpu"}


@pytest.fixture(autouse=True)
def fresh():
    conv.clear()
    yield
    conv.clear()


@pytest.fixture(params=list(functions()))
def called(request):
    return functions()[request.param]


def test_a_second_call_looks_for_no_kernel_and_has_the_first_ones_bits(called, monkeypatch):
    call, arguments, _ = called
    more, second = layer(arguments), others(arguments)
    first = call(*arguments, **more)
    wanted = call(*second, **more)
    monkeypatch.setattr(kernels, "asked", lambda *args, **named: pytest.fail("the call was checked anew"))
    assert np.array_equal(call(*arguments, **more), first)
    assert np.array_equal(call(*second, **more), wanted) and not np.array_equal(first, wanted)


def test_an_output_is_written_and_still_must_lie_apart(called, monkeypatch):
    call, arguments, sizes = called
    more, out = layer(arguments), np.full(sizes, np.nan, np.float32)
    wanted = call(*arguments, **more)
    assert call(*arguments, **more, out=out) is out
    assert np.array_equal(out, wanted)
    out[...] = np.nan
    assert call(*arguments, **more, out=out) is out
    assert np.array_equal(out, wanted)
    same = next(value for value in arguments if isinstance(value, np.ndarray))
    if same.shape == sizes:
        before = same.copy()
        with pytest.raises(ArgumentError, match="shares memory"):
            call(*arguments, **more, out=same)
        assert np.array_equal(before, same)


def test_other_arguments_are_other_calls(called):
    call, arguments, _ = called
    more = layer(arguments)
    call(*arguments, **more)
    with pytest.raises(ArgumentTypeError):
        call(*arguments, **{**more, "stride": 1.0})         # equal to 1, and no integer
    with pytest.raises((ShapeError, ArgumentError)):
        call(*arguments, **{**more, "padding": -1})
    with pytest.raises(ArgumentTypeError):
        call(*(value.astype(np.float64) if isinstance(value, np.ndarray) else value for value in arguments), **more)


def test_lists_are_taken_as_tuples_are():
    call, arguments, _ = functions()["conv2d_input"]
    more = layer(arguments)
    wanted = call(*arguments, **more)
    for _ in range(2):
        assert np.array_equal(call(list(arguments[0]), *arguments[1:], stride=[1, 1], **more), wanted)


def test_the_signatures_that_users_see_have_no_room_for_what_is_remembered():
    for call, *_ in functions().values():
        assert "remember" not in inspect.signature(call).parameters
