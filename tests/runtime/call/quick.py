"""What the tests of remembered calls share: a kernel on a driver of the tests' own, and tensors at known addresses."""

from __future__ import annotations

import pytest

from tests.runtime.devices.fake_cuda import PRIMARY, cuda  # noqa: F401
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.devices.cuda.backend import CudaBackend

SHAPE = ConvShape(n=2, c=3, h=9, w=11, k=4, r=3, s=3, padding=1)
ORDINAL = 1


def dense(shape):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return tuple(strides)


@pytest.fixture
def kernel(cuda):
    cuda.stack.append(PRIMARY + ORDINAL)
    return load(cuda, plan_layer(SHAPE, algorithm="direct"))


def load(cuda, plan, ordinal=ORDINAL):
    cuda.entries |= {entry.encode() for entry in plan.program.entries}
    return Kernel(plan.spec, plan.program, CudaBackend(plan.program, b"cubin", ordinal), source="", plan=plan)


class Operands:
    """x, w and y as tensors at addresses of their own; ``more`` goes to all of them."""

    def __init__(self, torch, start=1 << 24, **more):
        self.x, self.w, self.y = (torch.Tensor(shape, strides=dense(shape), pointer=start + (number << 20), **more)
                                  for number, shape in enumerate((SHAPE.input_shape, SHAPE.weight_shape,
                                                                  SHAPE.output_shape)))

    @property
    def pointers(self):
        return [tensor.data_ptr() for tensor in (self.x, self.w, self.y)]


@pytest.fixture
def checked(monkeypatch):
    """How many calls went the checked way."""
    calls = []
    real = Kernel._call

    def counted(self, *arguments):
        calls.append(arguments)
        return real(self, *arguments)

    monkeypatch.setattr(Kernel, "_call", counted)
    return calls
