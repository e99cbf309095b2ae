"""A layer's launches on the CPU device with all but the addresses laid out, to be run again and again."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from ctypes import byref
from functools import partial
from typing import Any

import numpy as np

from warpconv.codegen.dimension import Dimension
from warpconv.codegen.errors import KernelFault
from warpconv.codegen.plan import Launch, Program, Role
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import env
from warpconv.runtime.call.checks import name_of
from warpconv.runtime.call.quick import ROLES, names_of

from .abi import FAULT_KINDS, KEPT_STACKS, CLaunch
from .program import CpuProgram
from .report import Mode

ALIGNMENT = 16          # of arrays without gaps, which the host's vector instructions may insist on

MOST_KEPT = 1 << 20     # bytes of a transformed filter and workspaces that are kept for the next call

_ADDRESSES = struct.Struct("@5P")


def possible(program: Program, compiled: CpuProgram, shape: ConvShape, by_filter: bool) -> bool:
    """Whether a call is launches alone: nothing to check or count, no descriptor, library step or constant bank to
    fill, and little memory besides."""
    preparation = program.preparation
    steps = program.steps if preparation is None else (*preparation.steps, *program.steps)
    return (compiled.mode is Mode.FAST and not program.descriptors
            and (preparation is None or not preparation.constant) and all(isinstance(step, Launch) for step in steps)
            and sum(nbytes for _, nbytes in _scratch(program, shape, by_filter)) <= MOST_KEPT)


def _scratch(program: Program, shape: ConvShape, by_filter: bool) -> list[tuple[str, int]]:
    """Workspaces by name with their bytes, first the filter that a call transforms."""
    buffer = None if by_filter or program.preparation is None else program.preparation.buffer
    found = [] if buffer is None else [(buffer.name, buffer.bytes_each)]
    return found + [(workspace.name, workspace.bytes_of(shape)) for workspace in program.workspaces]


class _Slot:
    """Memory of one call's launches, and the device's function bound to it; one call has it at a time."""

    __slots__ = ("put", "runs", "requests", "keep")

    def __init__(self, compiled: CpuProgram, steps: Sequence[tuple[Launch, ConvShape | None, Mapping[str, int]]],
                 sizes: Sequence[int], scratch: Sequence[int]):
        kept = [np.empty(nbytes, np.uint8) for nbytes in scratch]
        block = (ctypes.c_uint64 * (len(ROLES) + len(sizes) + len(kept)))(
            *(0,) * len(ROLES), *sizes, *(array.ctypes.data for array in kept))
        self.put: Callable[..., None] = partial(_ADDRESSES.pack_into, block, 0)
        self.runs: list[Callable[[], int]] = []
        self.requests: list[CLaunch] = []
        start = ctypes.addressof(block)
        keep: list[Any] = [block, kept]
        for step, shape, numbers in steps:
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

    __slots__ = ("_compiled", "_steps", "_sizes", "_scratch", "_free")

    def __init__(self, program: Program, compiled: CpuProgram, shape: ConvShape, by_filter: bool):
        self._compiled = compiled
        weight, preparation = name_of(program, Role.WEIGHT), program.preparation
        given = {name: number for number, name in enumerate(names_of(program)) if name is not None}
        border, scratch = program.border_bits(shape), _scratch(program, shape, by_filter)
        self._sizes = (*(size.of(shape) for size in Dimension), *(bits % 2**32 for bits in border.values()))
        self._scratch = tuple(nbytes for _, nbytes in scratch)
        given |= {name: len(ROLES) + len(self._sizes) + number for number, (name, _) in enumerate(scratch)}
        numbers = given | {size.value: len(ROLES) + number for number, size in enumerate(Dimension)}
        numbers |= {name: len(ROLES) + len(Dimension) for name in border}
        before: tuple[Launch, ...] = ()
        if preparation is not None and preparation.buffer is not None:      # it stands in the weight's place
            at = ROLES.index(Role.WEIGHT) if by_filter else given[preparation.buffer.name]
            numbers |= {preparation.buffer.name: at} | ({} if weight is None else {weight: at})
            before = () if by_filter else preparation.steps     # type: ignore[assignment]
        self._steps = (*((step, None, given) for step in before), *((step, shape, numbers) for step in program.steps))
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
            slot = _Slot(self._compiled, self._steps, self._sizes, self._scratch)
        slot.put(x, w, bias, residual, y)
        for run, request, (step, _, _) in zip(slot.runs, slot.requests, self._steps):
            request.workers = workers
            if run():
                raise KernelFault(request.fault.decode(errors="replace"), kind=FAULT_KINDS[request.fault_kind],
                                  entry=step.entry)
        self._free.append(slot)
        return True
