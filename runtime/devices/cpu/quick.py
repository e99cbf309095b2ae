"""A layer's launches on the CPU device with all but the addresses laid out, to be run again and again."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from ctypes import byref
from functools import partial
from typing import Any

from warpconv.codegen.dimension import Dimension
from warpconv.codegen.errors import KernelFault
from warpconv.codegen.plan import Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import env
from warpconv.runtime.call.checks import name_of
from warpconv.runtime.call.quick import ROLES

from .abi import FAULT_KINDS, KEPT_STACKS, CLaunch
from .program import CpuProgram
from .report import Mode

ALIGNMENT = 16          # of arrays without gaps, which the host's vector instructions may insist on

_ADDRESSES = struct.Struct("@5P")


def possible(program: Program, compiled: CpuProgram) -> bool:
    """Whether a call is launches alone: nothing to check or count, no workspace, library step, filter to prepare or
    constant bank to fill."""
    return (compiled.mode is Mode.FAST and program.preparation is None and not program.workspaces
            and all(isinstance(step, Launch) for step in program.steps))


class _Slot:
    """Memory of one call's launches, and the device's function bound to it; one call has it at a time."""

    __slots__ = ("put", "runs", "requests", "keep")

    def __init__(self, compiled: CpuProgram, steps: Sequence[Launch], shape: ConvShape, numbers: dict[str, int],
                 sizes: Sequence[int]):
        block = (ctypes.c_uint64 * (len(ROLES) + len(sizes)))(*(0,) * len(ROLES), *sizes)
        self.put: Callable[..., None] = partial(_ADDRESSES.pack_into, block, 0)
        self.runs: list[Callable[[], int]] = []
        self.requests: list[CLaunch] = []
        start = ctypes.addressof(block)
        keep: list[Any] = [block]
        for step in steps:
            pointers = (ctypes.c_void_p * len(step.arguments))(*(start + 8 * numbers[name] for name in step.arguments))
            request = CLaunch(grid=tuple(step.grid_of(shape)), block=tuple(step.block), shared_bytes=step.shared_bytes,
                              buffer_count=0, arguments=pointers, stacks=KEPT_STACKS)
            run, kernel = compiled.unconverted(step.entry)
            self.runs.append(partial(run, byref(kernel), byref(request)))
            self.requests.append(request)
            keep += [pointers, request, kernel]
        self.keep = keep


class QuickLaunch:
    """One layer of one kernel whose arrays lie where the kernel can use them."""

    __slots__ = ("_compiled", "_steps", "_shape", "_numbers", "_sizes", "_free")

    def __init__(self, program: Program, compiled: CpuProgram, shape: ConvShape):
        self._compiled = compiled
        self._steps = program.steps
        self._shape = shape
        self._numbers = {name: number for number, role in enumerate(ROLES)
                         if (name := name_of(program, role)) is not None}
        self._numbers |= {size.value: len(ROLES) + number for number, size in enumerate(Dimension)}
        border = program.border_bits(shape)
        self._numbers |= {name: len(ROLES) + len(Dimension) for name in border}
        self._sizes = (*(size.of(shape) for size in Dimension), *(bits % 2**32 for bits in border.values()))
        self._free: list[_Slot] = []

    def run(self, x: int, w: int, bias: int, residual: int, y: int, stream: int, prepared: Any) -> bool:
        """Compute the layer; False where a filter has to be seen to. Raises KernelFault as CpuProgram.launch does."""
        if prepared is not None:
            w = prepared.array.ctypes.data
            if w % ALIGNMENT:
                return False
        workers = env.settings().cpu_threads
        try:
            slot = self._free.pop()
        except IndexError:
            slot = _Slot(self._compiled, self._steps, self._shape, self._numbers, self._sizes)
        slot.put(x, w, bias, residual, y)
        for run, request, step in zip(slot.runs, slot.requests, self._steps):
            request.workers = workers
            if run():
                raise KernelFault(request.fault.decode(errors="replace"), kind=FAULT_KINDS[request.fault_kind],
                                  entry=step.entry)
        self._free.append(slot)
        return True
