"""A layer's launches with all but the addresses laid out, to be queued again and again.

What the driver reads (arguments, grid, block, stream) lies in memory that is made once (``_Slot``), and its functions
are called with ctypes objects bound to that memory, so a call converts nothing: it writes five addresses, asks for the
current context and launches. A slot belongs to one call at a time, for ctypes lets other threads run while the driver
reads it; as many are made as calls meet.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from dataclasses import replace
from functools import partial
from typing import Any

from warpconv.codegen.descriptors import BYTES, TensorMap
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.plan import Launch, Program, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.call.checks import name_of
from warpconv.runtime.call.quick import ROLES, names_of

from . import contexts, memory, streams, tensor_maps
from .launches import Config, can_begin_early
from .libcuda import check, libcuda, unconverted

_POINTER_CONTEXT = 1            # CU_POINTER_ATTRIBUTE_CONTEXT


def possible(program: Program, by_filter: bool) -> bool:
    """Whether a call is launches alone: no library step, no filter to move to a constant bank first."""
    preparation = program.preparation
    steps = program.steps if preparation is None or by_filter else (*preparation.steps, *program.steps)
    return (by_filter or preparation is None or not preparation.constant) and all(
        isinstance(step, Launch) for step in steps)


def _shared(workspaces: Sequence[Workspace], sizes: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The blocks that workspaces take from the pool, by their bytes, and which of them each one has: as the checked way
    takes them, where one that is given back serves the next of its size."""
    blocks: list[tuple[int, int]] = []      # bytes, and the last step that needs it
    places = []
    for workspace, nbytes in zip(workspaces, sizes):
        size = memory.size_class(nbytes)
        free = (i for i, (held, last) in enumerate(blocks)
                if memory.size_class(held) == size and last < workspace.first_step)
        if (place := next(free, None)) is None:
            place = len(blocks)
            blocks.append((nbytes, 0))
        blocks[place] = max(nbytes, blocks[place][0]), workspace.last_step
        places.append(place)
    return tuple(nbytes for nbytes, _ in blocks), tuple(places)


class _Slot:
    """Memory of one call's launches, and the driver's functions bound to it."""

    __slots__ = ("put", "fires", "ask", "number", "ask_owner", "at", "owner", "configs", "stream", "keep",
                 "descriptors")

    def __init__(self, count: int, steps: Sequence[_Step], sizes: Sequence[int], functions: Sequence[int],
                 maps: Sequence[tuple[int, TensorMap]]):
        words = len(maps) * (BYTES // 8)
        # a size's lower half is its int, and so of the border's bits, which stand with them; descriptors last
        block = (c_ulonglong * (count + len(sizes) + words))(*(0,) * count, *sizes)
        self.put: Callable[..., None] = partial(struct.Struct(f"@{count}P").pack_into, block, 0)
        self.stream = 0
        start = ctypes.addressof(block)
        self.fires: list[Callable[[], int]] = []
        self.configs: list[Config] = []
        for step, function in zip(steps, functions):
            pointers = (c_void_p * len(step.slots))(*(start + 8 * slot for slot in step.slots))
            config = Config(step.grid, step.block, step.shared_bytes)
            if step.early and can_begin_early():
                config.begin_early()
            self.configs.append(config)
            self.fires.append(_bound(config, c_void_p(function), pointers))
        self.number, self.at, self.owner = c_ulonglong(), c_void_p(), c_void_p()
        self.ask = partial(*contexts.asking(self.number))
        self.ask_owner = partial(unconverted("cuPointerGetAttribute"), byref(self.owner), c_int(_POINTER_CONTEXT),
                                 self.at)
        self.keep = block
        base = start + 8 * (count + len(sizes))
        self.descriptors = [[slot, made, base + BYTES * i, 0] for i, (slot, made) in enumerate(maps)]

    def describe(self, addresses: Sequence[int]) -> None:
        """The descriptors of arrays that lie elsewhere than in the call before."""
        for described in self.descriptors:
            slot, made, at, known = described
            if addresses[slot] != known:
                ctypes.memmove(at, tensor_maps.encoded(made, addresses[slot]), BYTES)
                described[3] = addresses[slot]

    def to(self, stream: int) -> None:
        """Launch on this stream from now on."""
        self.stream = stream
        for config in self.configs:
            config.stream = stream


def _bound(config: Config, function: c_void_p, pointers: Any) -> Callable[[], int]:
    """A launch without arguments; four ctypes objects are passed in half the time of eleven."""
    if getattr(libcuda(), "cuLaunchKernelEx", None) is not None:
        return partial(unconverted("cuLaunchKernelEx"), byref(config), function, pointers, None)
    launch = unconverted("cuLaunchKernel")
    extents = [c_uint(extent) for extent in (*config.grid, *config.block, config.shared_bytes)]
    return lambda: launch(function, *extents, c_void_p(config.stream), pointers, None)


class _Step:
    """One launch of a layer: what does not depend on the module."""

    __slots__ = ("entry", "grid", "block", "shared_bytes", "early", "slots")

    def __init__(self, step: Launch, shape: ConvShape | None, numbers: dict[str, int]):
        self.entry = step.entry
        self.grid, self.block = ((*extent, 1, 1)[:3] for extent in (step.grid_of(shape), step.block))
        self.shared_bytes, self.early = step.shared_bytes, step.early
        self.slots = tuple(numbers[name] for name in step.arguments)


class QuickLaunch:
    """One layer of one kernel in the context that is current at its making.

    ``functions_of`` gives the handles of steps' kernels in a loaded module; a filter with a constant bank has a module
    of its own. A weight that is given by its address is transformed in each call."""

    __slots__ = ("_context", "_number", "_owner", "_constant", "_steps", "_sizes", "_maps", "_functions",
                 "_functions_of", "_free", "_shares_memory", "_count", "_blocks", "_pool")

    def __init__(self, program: Program, shape: ConvShape, loaded: Any,
                 functions_of: Callable[[Any, Sequence[Launch]], tuple[int, ...]], *, by_filter: bool, constant: bool,
                 shares_memory: bool, pool: memory.Pool):
        self._pool = pool
        self._context = contexts.context_key()
        self._number = self._context[1]
        self._owner = contexts.current_context()
        self._constant = constant
        self._shares_memory = shares_memory
        preparation = None if by_filter else program.preparation
        buffer = None if program.preparation is None else program.preparation.buffer
        workspaces, nbytes = list(program.workspaces), [w.bytes_of(shape) for w in program.workspaces]
        if preparation is not None and buffer is not None and preparation.steps:
            workspaces.insert(0, replace(buffer, first_step=0, last_step=len(program.steps)))     # of all steps
            nbytes.insert(0, buffer.bytes_each)
        self._blocks, places = _shared(workspaces, nbytes)
        given = {name: number for number, name in enumerate(names_of(program)) if name is not None}
        given |= {workspace.name: len(ROLES) + place for workspace, place in zip(workspaces, places)}
        self._count = len(ROLES) + len(self._blocks)
        numbers = dict(given)
        if buffer is not None:          # it stands in the weight's place
            of_buffer = numbers.setdefault(buffer.name, ROLES.index(Role.WEIGHT))
            numbers[name_of(program, Role.WEIGHT) or buffer.name] = of_buffer
        numbers |= {size.value: self._count + number for number, size in enumerate(Dimension)}
        border = program.border_bits(shape)
        numbers |= {name: self._count + len(Dimension) for name in border}
        self._sizes = (*(size.of(shape) for size in Dimension), *(bits % 2**32 for bits in border.values()))
        self._maps = tuple((numbers[d.of], d.at(shape)) for d in program.descriptors)
        first, words = self._count + len(self._sizes), BYTES // 8
        numbers |= {d.argument: first + words * i for i, d in enumerate(program.descriptors)}
        before = () if preparation is None else preparation.steps
        launches = [*before, *program.steps]
        self._steps = (*(_Step(step, None, given) for step in before),
                       *(_Step(step, shape, numbers) for step in program.steps))
        self._functions_of = partial(functions_of, steps=launches)
        self._functions = self._functions_of(loaded)
        self._free: list[_Slot] = []

    def run(self, x: int, w: int, bias: int, residual: int, y: int, stream: int, prepared: Any) -> bool:
        """Queue the layer; False, and nothing is queued, where the context is another one or the filter has to be seen
        to. Raises DeviceError where the driver refuses the launch, or has no memory for the workspaces."""
        free, functions = self._free, self._functions
        if prepared is not None:
            if prepared.context != self._context or streams.capturing(stream):
                return False            # a graph keeps its filters
            if self._constant:
                loaded = prepared.loaded.get(False)
                if loaded is None:
                    return False
                free = loaded.quick.setdefault(self, [])
                functions = self._functions_of(loaded)
            prepared.used_on.add(stream)
            w = prepared.block.pointer
        try:
            slot = free.pop()
        except IndexError:
            slot = _Slot(self._count, self._steps, self._sizes, functions, self._maps)
        entered = False
        if slot.ask() or slot.number.value != self._number:
            entered = self._enter(slot)
            if not entered:
                free.append(slot)
                return False
        try:
            return self._queue(slot, x, w, bias, residual, y, stream)
        finally:
            if entered:
                libcuda().cuCtxPopCurrent_v2(byref(c_size_t()))
            free.append(slot)

    def _enter(self, slot: _Slot) -> bool:
        """Push the layer's context where none is current: PyTorch computes gradients in such threads. Whoever calls
        pops it."""
        if contexts.current_context() or libcuda().cuCtxPushCurrent_v2(self._owner):
            return False
        if slot.ask() or slot.number.value != self._number:
            libcuda().cuCtxPopCurrent_v2(byref(c_size_t()))
            return False
        return True

    def _queue(self, slot: _Slot, x: int, w: int, bias: int, residual: int, y: int, stream: int) -> bool:
        if self._shares_memory and self._is_elsewhere(slot, x):
            return False
        if slot.stream != stream:
            slot.to(stream)
        if not self._blocks:
            self._fire(slot, (x, w, bias, residual, y))
            return True
        blocks: list[memory.Block] = []
        try:
            for nbytes in self._blocks:
                blocks.append(self._pool.allocate(nbytes, stream))
            self._fire(slot, (x, w, bias, residual, y, *[block.pointer for block in blocks]))
        finally:        # what comes next on the stream waits for what was queued
            for block in blocks:
                self._pool.release(block)
        return True

    def _fire(self, slot: _Slot, addresses: tuple[int, ...]) -> None:
        slot.put(*addresses)
        if slot.descriptors:
            slot.describe(addresses)
        for fire in slot.fires:
            status = fire()
            if status:
                self._refused(slot.fires.index(fire), status)

    def _is_elsewhere(self, slot: _Slot, pointer: int) -> bool:
        """Whether memory belongs to another context than this one; what belongs to none (pools) does not."""
        slot.at.value = pointer
        return bool(pointer) and slot.ask_owner() == 0 and (slot.owner.value or 0) not in (0, self._owner)

    def _refused(self, number: int, status: int) -> None:
        step = self._steps[number]
        check(status, f"launching {step.entry} with grid {step.grid}, block {step.block} and {step.shared_bytes} bytes "
                      "of shared memory")
