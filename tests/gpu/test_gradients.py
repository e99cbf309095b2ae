"""Drawn gradients on a GPU beside float64, and the same bits from run to run."""

from __future__ import annotations

import numpy as np
import pytest

from tests import checks, gradients, settings
from tests.cpu.test_gradients import FORMS, NAMES, OPERATIONS
from tests.gpu import gradient_variants, support
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.select import plan_layer
from warpconv.runtime.build.pipeline import build

pytestmark = pytest.mark.gpu

PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_drawn_layers(part, record_property):
    rng = settings.generator(1000 + part)
    count = max(1, settings.drawn_on_gpu() // (20 * PARTS))
    layers = [gradients.make(rng, gradients.draw_shape(rng)) for _ in range(count)]
    plans = [plan_layer(layer.shape, arch=support.arch(), operation=NAMES[operation])
             for layer in layers for operation in OPERATIONS]
    checks.compile_ahead(build, plans, support.COMPILERS)
    for layer in layers:
        for operation in OPERATIONS:
            layer.check(operation, device="cuda")
    record_property("drawn", count)


@pytest.mark.parametrize("form", FORMS)
def test_every_form(form):
    rng = np.random.default_rng(7)
    made = gradients.make(rng, gradients.draw_shape(rng, **FORMS[form]))
    for operation in OPERATIONS:
        made.check(operation, device="cuda")


@pytest.mark.parametrize("name", gradient_variants.ROOMS)
def test_variants(name):
    chosen = gradient_variants.of(name)
    if not chosen:
        pytest.skip(f"{support.arch()} does not run {name}")
    gradient_variants.compile_ahead(chosen)
    for case, shape in chosen:
        gradient_variants.run(case, shape, times=3)


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("groups", [1, 32])
def test_bits_are_equal_over_a_hundred_runs(layout, groups):
    torch = pytest.importorskip("torch", reason="the arrays stay on the GPU")
    import warpconv
    format = torch.channels_last if layout is Layout.NHWC else torch.contiguous_format
    x, dy = (torch.randn(16, 32, 28, 28, device="cuda", dtype=getattr(torch, DType.FLOAT16.value)).contiguous(
        memory_format=format) for _ in range(2))
    size = (32, 32 // groups, 3, 3)
    first = warpconv.conv2d_weight(x, size, dy, padding=1, groups=groups)
    bias = warpconv.conv2d_bias(dy)
    for _ in range(100):
        assert torch.equal(warpconv.conv2d_weight(x, size, dy, padding=1, groups=groups), first)
        assert torch.equal(warpconv.conv2d_bias(dy), bias)
