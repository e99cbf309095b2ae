"""Layers and plan values that Hypothesis draws, on the CPU device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, seed, settings as hypothesis_settings

from tests import checks, drawn, settings
from tests.cases import Case
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.devices.cpu import Mode

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


QUICK_AND_LONG = pytest.mark.parametrize("long", [False, pytest.param(True, marks=pytest.mark.long)],
                                         ids=["quick", "long"])


def check_drawn(count: int, check: Callable[[Case, ConvShape], None], images: bool = False,
                long: bool = False) -> Counter:
    """Check ``count`` drawn layers (``images``: of images; ``long``: others); how many of each algorithm there were.
    AssertionError where most were refused."""
    done: Counter = Counter()

    @seed(settings.seed + long)
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


@QUICK_AND_LONG
def test_values(long):
    done = check_drawn(settings.drawn_on_cpu(long), lambda case, shape: checks.check_kernel(
        checks.cpu_kernel(case.plan(shape=shape)), shape), long=long)
    if done.total() >= settings.DRAWN_WHOLE:
        assert set(done) == {*ALGORITHMS, "auto"}
    elif done.total() >= settings.DRAWN_LONG:           # few enough that chance may leave some out
        assert len(done) > 2 * len(ALGORITHMS) // 3


@QUICK_AND_LONG
def test_images(long):
    """Half as many: borders, pixels and other types, longer epilogues."""
    count = max(1, settings.drawn_on_cpu(long) // 2)
    check_drawn(count, lambda case, shape: checks.check_kernel(
        checks.cpu_kernel(case.plan(shape=shape)), shape), images=True, long=long)


@QUICK_AND_LONG
@pytest.mark.parametrize("images", [False, True])
def test_checked(images, long):
    """A tenth as many again, and five at least, every access checked."""
    count = settings.drawn_on_cpu(long)
    check_drawn(max(min(5, count), count // 10), lambda case, shape: checks.check_kernel(
        checks.cpu_kernel(case.plan(shape=shape), Mode.CHECK), shape), images, long)
