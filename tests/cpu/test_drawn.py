"""Layers and plan values that Hypothesis draws, on the CPU device."""

from __future__ import annotations

from collections import Counter
from typing import Callable

import pytest
from hypothesis import HealthCheck, given, seed
from hypothesis import settings as hypothesis_settings

from tests import checks, drawn, settings
from tests.cases import Case
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.devices.cpu import Mode

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


def check_drawn(count: int, check: Callable[[Case, ConvShape], None], images: bool = False) -> Counter:
    """Check ``count`` drawn layers (``images``: of images); how many of each algorithm there were. AssertionError where
    most were refused."""
    done: Counter = Counter()

    @seed(settings.seed)
    @hypothesis_settings(max_examples=count, deadline=None, database=None,
                         suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much,
                                                HealthCheck.data_too_large])
    @given(drawn.layers(images=images))
    def one(layer: tuple[Case, ConvShape]) -> None:
        case, shape = layer
        check(case, shape)
        done[case.algorithm] += 1

    one()
    print(f"seed {settings.seed}: {dict(done)}")
    assert done.total() >= 0.9 * count, "the planners refused most of what was drawn"
    return done


def test_values():
    done = check_drawn(settings.drawn_on_cpu(), lambda case, shape: checks.check_kernel(
        checks.cpu_kernel(case.plan(shape=shape)), shape))
    if done.total() >= settings.DRAWN_WHOLE:
        assert set(done) == {*ALGORITHMS, "auto"}
    elif done.total() >= settings.DRAWN_ON_CPU:         # few enough that chance may leave one out
        assert len(done) > len(ALGORITHMS) // 2


def test_images():
    """Half as many: borders, pixels and other types, longer epilogues."""
    count = max(1, settings.drawn_on_cpu() // 2)
    check_drawn(count, lambda case, shape: checks.check_kernel(
        checks.cpu_kernel(case.plan(shape=shape)), shape), images=True)


@pytest.mark.parametrize("images", [False, True])
def test_checked(images):
    """A tenth as many again, and ten at least, every access checked."""
    count = settings.drawn_on_cpu()
    check_drawn(max(min(10, count), count // 10), lambda case, shape: checks.check_kernel(
        checks.cpu_kernel(case.plan(shape=shape), Mode.CHECK), shape), images)
