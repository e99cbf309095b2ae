"""Layers and plan values that Hypothesis draws, on the CPU device."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, seed
from hypothesis import settings as hypothesis_settings

from tests import checks, drawn, settings

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


@seed(settings.seed)
@hypothesis_settings(max_examples=settings.drawn_on_cpu(), deadline=None, database=None,
                     suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much,
                                            HealthCheck.data_too_large])
@given(drawn.layers())
def test_values(layer):
    case, shape = layer
    checks.check_kernel(checks.cpu_kernel(case.plan()), shape)


@seed(settings.seed)
@hypothesis_settings(max_examples=max(1, settings.drawn_on_cpu() // 10), deadline=None, database=None,
                     suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much,
                                            HealthCheck.data_too_large])
@given(drawn.layers())
def test_checked(layer):
    """A tenth as many again, every access checked."""
    case, shape = layer
    checks.check_checked(case.plan(), shape)
