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
                long: bool = False, algorithm: str | None = None) -> Counter:
    """Check ``count`` drawn layers (``images``: of images; ``long``: others; all of one ``algorithm`` where it is
    given); how many of each algorithm there were. AssertionError where most were refused."""
    done: Counter = Counter()

    @seed(settings.seed + long)
    @hypothesis_settings(max_examples=count, deadline=None, database=None,
                         suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much,
                                                HealthCheck.data_too_large])
    @given(drawn.layers(algorithm, images))
    def one(layer: tuple[Case, ConvShape]) -> None:
        case, shape = layer
        check(case, shape)
        done[case.algorithm] += 1

    one()
    print(f"seed {settings.seed}: {dict(done)}")
    assert done.total() >= 0.9 * count, "the planners refused most of what was drawn"
    return done


def check_values(case: Case, shape: ConvShape) -> None:
    checks.check_kernel(checks.cpu_kernel(case.plan(shape=shape)), shape)


@pytest.mark.long
def test_values():
    check_drawn(settings.drawn_on_cpu(), check_values)


@pytest.mark.long
@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "auto"])
def test_values_of_each_algorithm(algorithm):
    """As many of each: which ones are drawn is not left to chance."""
    count = -(-settings.drawn_on_cpu(long=True) // (len(ALGORITHMS) + 1))
    check_drawn(count, check_values, long=True, algorithm=algorithm)


@pytest.mark.long
@QUICK_AND_LONG
def test_images(long):
    """Half as many: borders, pixels and other types, longer epilogues."""
    count = max(1, settings.drawn_on_cpu(long) // 2)
    check_drawn(count, check_values, images=True, long=long)


@pytest.mark.long
@QUICK_AND_LONG
@pytest.mark.parametrize("images", [False, True])
def test_checked(images, long):
    """A tenth as many again, and five at least, every access checked."""
    count = settings.drawn_on_cpu(long)
    check_drawn(max(min(5, count), count // 10), lambda case, shape: checks.check_kernel(
        checks.cpu_kernel(case.plan(shape=shape), Mode.CHECK), shape), images, long)
