"""A program of several steps on the CPU device: a prepared filter, two launches, a workspace, a library step between.

The algorithm is registered for these tests alone; its one template holds three entries. It proves that the spine
carries what later algorithms need.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jinja2
import numpy as np
import pytest

import warpconv
from tests import checks, reference, settings
from warpconv.codegen import registry, render
from warpconv.codegen.algorithms.base import Algorithm, layer_arguments
from warpconv.codegen.plan import (Argument, Blocks, Cost, Dimension, KernelPlan, Launch, LibraryCall, Preparation,
                                   Program, Role, Workspace)
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import conv, steps
from warpconv.runtime.cpu import Mode

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))

# 1x1 filters: gather the pixels as rows of channels, multiply by the turned filter (the library step), scatter
TEMPLATE = """\
{% from "fragments/common.cuh.jinja" import parameters with context %}
// Test only: prepare turns the filter, gather and scatter stand around a matrix product.
constexpr int C = {{ spec.c }}, K = {{ spec.k }};
extern "C" __global__ void __launch_bounds__(64)
prepare_filter(const float* __restrict__ w, float* __restrict__ turned) {
    for (int i = threadIdx.x; i < K * C; i += 64) turned[i % C * K + i / C] = w[i];
}

extern "C" __global__ void __launch_bounds__(64)
gather_pixels(const float* __restrict__ x, float* __restrict__ pixels, int N, int H, int W) {
    for (int i = blockIdx.x * 64 + threadIdx.x; i < N * H * W; i += gridDim.x * 64)
        for (int c = 0; c < C; ++c) pixels[i * C + c] = x[(i / (H * W) * C + c) * (H * W) + i % (H * W)];
}

extern "C" __global__ void __launch_bounds__(64)
scatter_products(const float* __restrict__ products, float* __restrict__ y, int N, int P, int Q) {
    for (int i = blockIdx.x * 64 + threadIdx.x; i < N * P * Q; i += gridDim.x * 64)
        for (int k = 0; k < K; ++k) y[(i / (P * Q) * K + k) * (P * Q) + i % (P * Q)] = products[i * K + k];
}
"""


@dataclass(frozen=True)
class Options:
    """No plan values."""


def _supports(spec):
    return None if (spec.r, spec.s, spec.groups, spec.stride) == (1, 1, 1, (1, 1)) else "only 1x1 filters"


def _plan(spec, options) -> KernelPlan:
    extra = tuple(Argument(name=name, role=Role.WORKSPACE, c_type="float") for name in ("turned", "pixels", "products"))
    one = Blocks()
    rows = Blocks(of=Dimension.H, limit=8)
    sizes = (Dimension.N, Dimension.P, Dimension.Q)
    program = Program(
        arguments=layer_arguments(spec) + extra,
        steps=(Launch(entry="gather_pixels", grid=(rows, one, one), block=(64, 1, 1),
                      arguments=("x", "pixels", "N", "H", "W")),
               LibraryCall(operation="test_product", operands=("pixels", "turned", "products")),
               Launch(entry="scatter_products", grid=(rows, one, one), block=(64, 1, 1),
                      arguments=("products", "y", "N", "P", "Q"))),
        workspaces=(Workspace(name="pixels", bytes_each=4 * spec.c, per=sizes, first_step=0, last_step=1),
                    Workspace(name="products", bytes_each=4 * spec.k, per=sizes, first_step=1, last_step=2)),
        preparation=Preparation(
            steps=(Launch(entry="prepare_filter", grid=(one, one, one), block=(64, 1, 1), arguments=("w", "turned")),),
            buffer=Workspace(name="turned", bytes_each=4 * spec.c * spec.k)))
    return KernelPlan(spec=spec, options=options, numbers=None, templates=("test_product.cu.jinja",), program=program,
                      cost=Cost(unit="pixel", warp_loads=0, shuffles=0, fma=0, registers=16, direct_loads=0),
                      phrase="test only")


def _product(executor, shape, operands) -> None:
    pixels, turned, products = (operand.view(np.float32) for operand in operands)
    _product.calls.append(shape)
    products[:] = (pixels.reshape(-1, shape.c) @ turned.reshape(shape.c, shape.k)).reshape(-1)


_product.calls = []
ROW = Algorithm(name="test_product", summary="test only", options=Options, supports=_supports,
                defaults=lambda spec, shape: Options(), plan=_plan, space=lambda spec: (Options(),),
                estimate=lambda plan, shape: 1e30)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """The algorithm, its template and its library step, for one test."""
    environment = render.environment()
    with_template = environment.overlay(loader=jinja2.ChoiceLoader(
        [jinja2.DictLoader({"kernels/test_product.cu.jinja": TEMPLATE}), environment.loader]))
    monkeypatch.setattr(render, "environment", lambda: with_template)
    monkeypatch.setitem(registry.ALGORITHMS, ROW.name, ROW)
    monkeypatch.setitem(steps.LIBRARY, ("test_product", "cpu"), _product)
    _product.calls.clear()
    yield
    conv.clear()


SHAPE = ConvShape(n=2, c=3, h=7, w=9, k=5, r=1, s=1)


@functools.lru_cache(maxsize=1)
def arrays():
    x, w, _ = reference.operands(SHAPE, settings.generator(11))
    return x, w, reference.expected(x, w, SHAPE)


def test_preparation_launches_workspaces_and_a_library_step():
    x, w, wanted = arrays()
    kernel = warpconv.specialize(SHAPE, algorithm="test_product", device="cpu")
    assert kernel.program.entries == ("prepare_filter", "gather_pixels", "scatter_products")
    wanted.check(kernel(x, w), "weight by array")
    assert _product.calls == [SHAPE]


def test_a_prepared_filter_is_used_again_and_outlives_its_array():
    x, w, wanted = arrays()
    kernel = warpconv.specialize(SHAPE, algorithm="test_product", device="cpu")
    own = w.copy()
    prepared = kernel.prepare(own)
    own[:] = np.nan
    for _ in range(2):
        wanted.check(kernel(x, prepared), "prepared filter")
    assert len(_product.calls) == 2


def test_every_launch_checked():
    x, w, wanted = arrays()
    kernel = checks.cpu_kernel(checks.planned(SHAPE, "test_product"), Mode.CHECK)
    wanted.check(kernel(x, w), "checked")
    assert len(kernel._backend.reports) == 3


def test_workspace_bytes_are_the_most_alive_at_one_time():
    kernel = warpconv.specialize(SHAPE, algorithm="test_product", device="cpu")
    pixels = SHAPE.n * SHAPE.h * SHAPE.w
    assert kernel.workspace_bytes(SHAPE) == 4 * pixels * (SHAPE.c + SHAPE.k)


def test_any_sizes_with_one_kernel():
    kernel = warpconv.specialize(SHAPE, algorithm="test_product", device="cpu")
    for n, h, w in ((1, 1, 1), (3, 40, 2), (1, 2, 65)):
        checks.check_kernel(kernel, ConvShape(n=n, c=3, h=h, w=w, k=5, r=1, s=1))


def test_the_registry_offers_it_and_explains():
    by_name = {candidate.algorithm: candidate for candidate in warpconv.explain(SHAPE)}
    assert by_name["test_product"].supported
    other = ConvShape(c=3, h=9, w=9, k=5, r=3, s=3)
    assert {c.algorithm: c.reason for c in warpconv.explain(other)}["test_product"] == "only 1x1 filters"


def test_a_missing_library_step_is_a_typed_error(monkeypatch):
    monkeypatch.delitem(steps.LIBRARY, ("test_product", "cpu"))
    x, w, _ = arrays()
    kernel = warpconv.specialize(SHAPE, algorithm="test_product", device="cpu")
    with pytest.raises(warpconv.DeviceError) as caught:
        kernel(x, w)
    assert caught.value.value == "test_product"


def test_workspaces_are_given_back_also_after_an_error():
    taken, given = [], []

    class Executor:
        kind = "cpu"

        def launch(self, step, shape, operands):
            if step.entry == "scatter_products":
                raise RuntimeError("planted")

        def allocate(self, workspace, nbytes):
            taken.append((workspace.name, nbytes))
            return np.zeros(nbytes // 4, np.float32)

        def release(self, workspace, memory):
            given.append(workspace.name)

    program = _plan(checks.planned(SHAPE, "test_product").spec, Options()).program
    with pytest.raises(RuntimeError, match="planted"):
        steps.execute(Executor(), program.steps, program.workspaces, SHAPE,
                      {"turned": np.zeros(15, np.float32), "x": None, "y": None})
    assert sorted(given) == ["pixels", "products"]
    assert dict(taken) == {"pixels": 2 * 63 * 12, "products": 2 * 63 * 20}
