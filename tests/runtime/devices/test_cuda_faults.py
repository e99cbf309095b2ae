"""A GPU that fails in the middle of a call: whose fault it was is said, nothing is kept, and the next call works."""

from __future__ import annotations

import pytest

from tests.runtime.arrays.fake_arrays import torch  # noqa: F401
from tests.runtime.call.quick import ORDINAL, dense, load
from tests.runtime.devices.fake_cuda import PRIMARY, cuda  # noqa: F401
from warpconv.codegen.errors import DeviceError
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.devices.cuda import memory

SHAPE = ConvShape(n=2, c=64, h=7, w=7, k=64, r=3, s=3, padding=1, dtype="float16")


@pytest.fixture
def kernel(cuda):
    """Three launches over two workspaces, and before them one that reorders the filter, into a third."""
    cuda.stack.append(PRIMARY + ORDINAL)
    plan = plan_layer(SHAPE, algorithm="mma")
    assert len(plan.program.workspaces) == 2 and len(plan.program.steps) == 3
    return load(cuda, plan)


def arrays(torch, shape=SHAPE, start=1 << 24):
    return [torch.Tensor(sizes, "float16", strides=dense(sizes), pointer=start + (number << 20))
            for number, sizes in enumerate((shape.input_shape, shape.weight_shape, shape.output_shape))]


def call(kernel, torch, **more):
    x, w, y = arrays(torch, **more)
    return kernel(x, w, out=y)


@pytest.mark.parametrize("status, whose", [
    (700, "earlier kernel"), (702, "earlier kernel"), (716, "not this call's"), (719, "not this call's"),
    (709, "somebody destroyed"), (214, "cannot mend"), (2, "held elsewhere"), (400, "another context")])
def test_a_launch_that_fails(cuda, torch, kernel, status, whose):
    call(kernel, torch)
    held = memory.pool.held_bytes()
    cuda.fail["cuLaunchKernel"] = status
    for _ in range(2):
        with pytest.raises(DeviceError, match=f"CUDA_ERROR_{status}") as caught:
            call(kernel, torch)
        assert whose in caught.value.hint
    cuda.fail.clear()
    del cuda.launched[:]
    call(kernel, torch)
    assert len(cuda.launched) == 4 and memory.pool.held_bytes() == held


class FailsOnce(dict):
    """Statuses of a driver whose launch ``number`` fails."""

    def __init__(self, number):
        self.left = number

    def get(self, name, default=0):
        self.left -= name == "cuLaunchKernel"
        return 719 if name == "cuLaunchKernel" and not self.left else default


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_launch_in_the_middle_that_fails(cuda, torch, kernel, number):
    call(kernel, torch)
    held, cuda.fail = memory.pool.held_bytes(), FailsOnce(number)
    before = len(cuda.launched)
    with pytest.raises(DeviceError, match="719"):
        call(kernel, torch)
    assert len(cuda.launched) == before + number
    call(kernel, torch)
    assert len(cuda.launched) == before + number + 4 and memory.pool.held_bytes() == held


@pytest.mark.parametrize("workspaces", [0, 1])
def test_memory_that_ends_in_the_middle_of_a_program(cuda, torch, kernel, workspaces):
    """The output is there, workspaces are not, or the first alone is."""
    sizes = [workspace.bytes_of(SHAPE) for workspace in kernel.program.workspaces]
    sizes.insert(0, kernel.program.preparation.buffer.bytes_each)
    cuda.room = sum(sizes[:1 + workspaces]) + 1024
    for _ in range(3):
        with pytest.raises(DeviceError, match="no room for .* bytes .*empty_cache"):
            call(kernel, torch)
    cuda.room = 1 << 40
    del cuda.launched[:]
    call(kernel, torch)
    assert len(cuda.launched) == 4 and memory.pool.held_bytes() < 1.2 * sum(sizes) + 2048


@pytest.mark.long
def test_ten_thousand_calls_hold_no_more_memory_than_the_first(cuda, torch, kernel):
    shapes = [ConvShape(n=n, c=64, h=h, w=h, k=64, r=3, s=3, padding=1, dtype="float16")
              for n in range(1, 9) for h in range(4, 14)]
    held = []
    for _ in range(125):
        for number, shape in enumerate(shapes):
            call(kernel, torch, shape=shape, start=(1 << 24) + (number << 26))
        held.append((memory.pool.held_bytes(), len(cuda.memory)))
        del cuda.calls[1000:], cuda.launched[:], cuda.arguments[:]
    assert set(held) == {held[0]}
