"""Kernels of several steps on a GPU: what their workspaces take from the driver, and each step alone."""

import pytest

import warpconv
from tests import reference, settings
from warpconv.codegen.errors import DeviceError
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.devices.cuda import contexts, memory

pytestmark = pytest.mark.gpu

SHAPE = ConvShape(n=3, c=4, h=30, w=41, k=24, r=5, s=3, stride=(2, 1), padding=(1, 2), groups=2)
PLANS = [("im2win", {}), ("im2win_basic", {}), ("im2col", {"batch": "image"}), ("im2col", {"batch": "whole"}),
         ("implicit_gemm", {})]


def rounded(nbytes):
    """What PyTorch's allocator takes for so many bytes."""
    return -(-nbytes // 512) * 512


@pytest.mark.parametrize("algorithm, values", PLANS, ids=str)
def test_workspaces_are_what_was_planned_and_steps_run_alone(algorithm, values):
    torch = pytest.importorskip("torch")
    if algorithm not in ALGORITHMS:
        pytest.skip(f"there is no {algorithm}")
    x, w, _ = reference.operands(SHAPE, settings.generator(5))
    wanted = reference.expected(x, w, SHAPE)
    here, weight = (torch.tensor(array, device="cuda:0") for array in (x, w))
    plan = plan_layer(SHAPE, algorithm=algorithm, settings=values, arch=contexts.arch(0))
    try:
        kernel = warpconv.specialize(SHAPE, device="cuda:0", plan=plan)
        prepared = kernel.prepare(weight) if plan.program.preparation is not None else weight
        kernel(here, prepared)
    except DeviceError as error:
        if algorithm == "im2col" and "binding is missing" in str(error):
            pytest.skip(str(error))
        raise
    torch.cuda.synchronize()
    with contexts.activate(0):
        memory.keep_alive.sweep()
        memory.pool.trim(captured=True)
        before = memory.pool.held_bytes()
        torch.cuda.reset_peak_memory_stats()
        allocated = torch.cuda.memory_allocated()
        made = kernel(here, prepared)
        torch.cuda.synchronize()
        # workspaces beside PyTorch's tensors are PyTorch's, as the output is
        held = torch.cuda.max_memory_allocated() - allocated - rounded(made.nbytes)
        assert memory.pool.held_bytes() == before
    wanted.check(made.cpu().numpy(), "a call from an empty pool")
    planned = kernel.workspace_bytes(SHAPE)
    assert planned <= held <= sum(rounded(memory.size_class(w.bytes_of(SHAPE))) for w in plan.program.workspaces)
    y = torch.full(SHAPE.output_shape, float("nan"), device="cuda:0")
    for step in range(len(plan.program.steps)):
        part = kernel.only(step)
        part(here, part.prepare(weight) if plan.program.preparation is not None else weight, out=y)
    if plan.program.preparation is not None and plan.program.preparation.steps:
        kernel.only(None)(here, weight, out=y)
    wanted.check(kernel(here, prepared).cpu().numpy(), "after its steps alone")
