"""Layers on the CPU device with whatever algorithm and plan values are chosen for them."""

from __future__ import annotations

import pytest

from tests import checks
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


@pytest.mark.thin(2)
@pytest.mark.parametrize("layer", [dict(c=1, h=70, w=70, k=1, r=5, s=5, padding="same"),
                                   dict(c=3, h=40, w=50, k=8, r=3, s=3, stride=2, padding=1),
                                   dict(c=2, h=33, w=65, k=4, r=3, s=3, padding=1),
                                   dict(c=1, h=40, w=100, k=1, r=2, s=35), dict(c=1, h=70, w=90, k=1, r=15, s=15),
                                   dict(c=2, h=50, w=70, k=2, r=31, s=31, padding=15)],
                         ids=["plane", "stride", "channels", "wider than a warp", "15x15", "31x31"])
def test_the_chosen_algorithm_with_its_defaults(layer):
    shape = ConvShape(**layer)
    kernel = checks.check_layer("cpu", shape)
    assert kernel.spec == plan_layer(shape, precision="ieee").spec      # which the CPU device takes
