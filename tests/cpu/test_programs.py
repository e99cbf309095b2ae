"""A program of several steps on the CPU device: a prepared filter, launches, workspaces, and for each image a launch
and a library step.

The algorithm is registered for these tests alone; its one template holds three entries. It proves that the spine
carries what later algorithms need.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pytest

import warpconv
from tests import checks, reference, settings
from warpconv.codegen import registry
from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.parts.arguments import layer_arguments
from warpconv.codegen.plan import (Argument, Blocks, Cost, Extent, KernelPlan, Launch, LibraryCall, Preparation,
                                   Program, Repeat, Role, Workspace)
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.call import conv
from warpconv.runtime.devices import steps
from warpconv.runtime.devices.cpu import Mode

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))

# 1x1 filters: gather the pixels as rows of channels, multiply by the turned filter (the library step), scatter
TEMPLATE = """\
{% from "parts/common.cuh.jinja" import parameters with context %}
// Test only: prepare turns the filter, gather and scatter stand around a matrix product.
constexpr int C = {{ spec.c }}, K = {{ spec.k }};
extern "C" __global__ void __launch_bounds__(64)
prepare_filter(const float* __restrict__ w, float* __restrict__ turned) {
    for (int i = threadIdx.x; i < K * C; i += 64) turned[i % C * K + i / C] = w[i];
}

extern "C" __global__ void __launch_bounds__(64)
gather_pixels(const float* __restrict__ x, float* __restrict__ pixels, int image, int H, int W) {
    for (int i = blockIdx.x * 64 + threadIdx.x; i < H * W; i += gridDim.x * 64)
        for (int c = 0; c < C; ++c) pixels[i * C + c] = x[(image * C + c) * (H * W) + i];
}

extern "C" __global__ void __launch_bounds__(64)
scatter_products(const float* __restrict__ products, float* __restrict__ y, int N, int P, int Q) {
    for (int i = blockIdx.x * 64 + threadIdx.x; i < N * P * Q; i += gridDim.x * 64)
        for (int k = 0; k < K; ++k) y[(i / (P * Q) * K + k) * (P * Q) + i % (P * Q)] = products[i * (K + 1) + k];
}
"""


@dataclass(frozen=True)
class Options:
    """No plan values."""


def _supports(spec):
    return None if (spec.r, spec.s, spec.groups, spec.stride) == (1, 1, 1, (1, 1)) else "only 1x1 filters"


def _plan(spec, options) -> KernelPlan:
    extra = tuple(Argument(name=name, role=Role.WORKSPACE, c_type="float") for name in ("turned", "pixels", "products"))
    extra += (Argument(name="image", role=Role.INDEX, c_type="int"),)
    one = Blocks()
    pixels = Blocks(of=Dimension.P, by=(Dimension.Q,), add=63, per=64, limit=8)
    one_image = (Extent(of=Dimension.P), Extent(of=Dimension.Q))
    program = Program(
        arguments=layer_arguments(spec) + extra,
        steps=(Repeat(of=Dimension.N, index="image", steps=(
                   Launch(entry="gather_pixels", grid=(pixels, one, one), block=(64, 1, 1),
                          arguments=("x", "pixels", "image", "H", "W")),
                   LibraryCall(operation="test_product", operands=("pixels", "turned", "products", "image")))),
               Launch(entry="scatter_products", grid=(pixels, one, one), block=(64, 1, 1),
                      arguments=("products", "y", "N", "P", "Q"))),
        workspaces=(Workspace(name="pixels", bytes_each=4 * spec.c, per=one_image),
                    Workspace(name="products", bytes_each=4 * (spec.k + 1), per=(Extent(of=Dimension.N), *one_image),
                              last_step=1)),
        preparation=Preparation(
            steps=(Launch(entry="prepare_filter", grid=(one, one, one), block=(64, 1, 1), arguments=("w", "turned")),),
            buffer=Workspace(name="turned", bytes_each=4 * spec.c * spec.k)))
    return KernelPlan(spec=spec, options=options, numbers=None, templates=("test_product/kernel.cu.jinja",),
                      program=program,
                      cost=Cost(unit="pixel", warp_loads=0, shuffles=0, fma=0, registers=16, direct_loads=0),
                      phrase="test only")


def _product(executor, shape, operands) -> None:
    pixels, turned, products = (operand.view(np.float32) for operand in operands[:3])
    _product.calls.append((shape, operands[3]))
    rows = products.reshape(shape.n, -1, shape.k + 1)[operands[3], :, :-1]
    rows[:] = pixels.reshape(-1, shape.c) @ turned.reshape(shape.c, shape.k)


_product.calls = []
ROW = Algorithm(name="test_product", summary="test only", options=Options, supports=_supports,
                defaults=lambda spec, shape: Options(), plan=_plan, space=lambda spec: (Options(),),
                estimate=lambda plan, shape: 1e30)


@pytest.fixture(autouse=True)
def registered(monkeypatch, tmp_path):
    """The algorithm, its template and its library step, for one test."""
    (tmp_path / "test_product").mkdir()
    (tmp_path / "test_product" / "kernel.cu.jinja").write_text(TEMPLATE)
    registry.register(ROW, tmp_path)
    monkeypatch.setitem(steps.LIBRARY, ("test_product", "cpu"), _product)
    _product.calls.clear()
    yield
    registry.unregister(ROW.name)
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
    assert _product.calls == [(SHAPE, 0), (SHAPE, 1)]


def test_a_prepared_filter_is_used_again_and_outlives_its_array():
    x, w, wanted = arrays()
    kernel = warpconv.specialize(SHAPE, algorithm="test_product", device="cpu")
    own = w.copy()
    prepared = kernel.prepare(own)
    own[:] = np.nan
    for _ in range(2):
        wanted.check(kernel(x, prepared), "prepared filter")
    assert len(_product.calls) == 2 * SHAPE.n


def test_every_launch_checked():
    x, w, wanted = arrays()
    kernel = checks.cpu_kernel(checks.planned(SHAPE, "test_product"), Mode.CHECK)
    wanted.check(kernel(x, w), "checked")
    assert len(kernel._backend.reports) == 1 + SHAPE.n + 1


def test_workspace_bytes_are_the_most_alive_at_one_time():
    kernel = warpconv.specialize(SHAPE, algorithm="test_product", device="cpu")
    pixels = SHAPE.h * SHAPE.w
    assert kernel.workspace_bytes(SHAPE) == 4 * pixels * (SHAPE.c + SHAPE.n * (SHAPE.k + 1))


def test_a_step_alone_and_the_filters_transform_alone():
    x, w, wanted = arrays()
    kernel = warpconv.specialize(SHAPE, algorithm="test_product", device="cpu")
    kernel(x, w)
    _product.calls.clear()
    y = np.full(SHAPE.output_shape, np.nan, np.float32)
    scatter, images, transform = kernel.only(1), kernel.only(0), kernel.only(None)
    assert scatter.program.entries == ("prepare_filter", "scatter_products") and not _product.calls
    scatter(x, w, out=y)
    assert not _product.calls and np.isnan(y).all()             # the products that it scatters were made by no step
    assert scatter.workspace_bytes(SHAPE) == 4 * 63 * 2 * 6
    images(x, images.prepare(w), out=y)
    assert len(_product.calls) == SHAPE.n and images.workspace_bytes(SHAPE) == kernel.workspace_bytes(SHAPE)
    assert transform.program.entries == ("prepare_filter",) and transform.workspace_bytes(SHAPE) == 4 * 15
    transform(x, w, out=y)
    wanted.check(kernel(x, w), "the kernel that they were taken from")
    for step in (2, -1):
        with pytest.raises(warpconv.ArgumentError, match="no such step"):
            kernel.only(step)
    with pytest.raises(warpconv.ArgumentError, match="not transformed"):
        transform.only(None)


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
    assert dict(taken) == {"pixels": 63 * 12, "products": 2 * 63 * 24}
