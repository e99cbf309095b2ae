"""Drawn gradients on a GPU beside float64, and the same bits from run to run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests import cases, checks, gradients, settings
from tests.algorithms import EVERY
from tests.cpu.test_gradients import FORMS, NAMES, OPERATIONS
from tests.gpu import support
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.request import settings_of
from warpconv.codegen.select import plan_layer
from warpconv.codegen.spec import Epilogue
from warpconv.runtime import arrays
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.call import kernels, operands

pytestmark = pytest.mark.gpu

PARTS = 10
ROOMS = [name for name, rows in EVERY.items() if rows.operation in NAMES.values() and not rows.volumes]


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


@pytest.mark.parametrize("name", ROOMS)
def test_variants(name):
    """Those of a room of gradients, which the CPU device executes, too, at their smallest sizes."""
    if name == "filter_gradient_wgmma" and not support.arch().startswith("sm_90"):
        pytest.skip(f"{support.arch()} has no wgmma")
    chosen = [(case, case.sizes()[0]) for case in cases.variants(name)]
    checks.compile_ahead(build, [case.plan(support.arch(), shape) for case, shape in chosen], support.COMPILERS)
    for case, shape in chosen:
        made = gradients.make(settings.generator(case.number), shape, bias=Epilogue.BIAS in case.epilogue,
                              numerics=case.plan(support.arch(), shape).spec.numerics)
        output = gradients.OUTPUTS[case.operation]
        ask = kernels.asked(shape, 0, algorithm=name, operation=case.operation, epilogue=case.epilogue,
                            numerics=case.numerics)
        ask = ask._replace(request=replace(ask.request, settings=settings_of(dict(case.values))))
        arrays_of = {"dx": ("dy", "w", "b"), "dw": ("dy", "x"), "db": ("dy",)}[output]
        given = {"bias" if key == "b" else key: getattr(made, key) for key in arrays_of}
        read = {key: operands.Operand(key, array, arrays.view(array, key)) for key, array in given.items()
                if array is not None}
        wanted = getattr(made, output)
        for _ in range(3):
            wanted.check(operands.run(ask, read, output, wanted.output.shape, None, None, None), case.id)


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
