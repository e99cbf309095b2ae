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
from ctypes import byref, c_int, c_uint, c_ulonglong, c_void_p
from functools import partial
from typing import Any

from warpconv.codegen.descriptors import BYTES, TensorMap
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.plan import Launch, Program, Role
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.call.checks import name_of

from . import contexts, streams, tensor_maps
from .libcuda import check, libcuda, unconverted

_ROLES = (Role.INPUT, Role.WEIGHT, Role.BIAS, Role.RESIDUAL, Role.OUTPUT)
_ADDRESSES = struct.Struct("@5P")
_POINTER_CONTEXT = 1            # CU_POINTER_ATTRIBUTE_CONTEXT


def possible(program: Program, by_filter: bool) -> bool:
    """Whether a call is launches alone: no workspace, no library step, no filter to prepare or to move first."""
    preparation = program.preparation
    plain = preparation is None or by_filter or not (preparation.steps or preparation.constant)
    return plain and not program.workspaces and all(isinstance(step, Launch) for step in program.steps)


class _Config(ctypes.Structure):
    """CUlaunchConfig: all of a launch but its function and its arguments."""

    _fields_ = [("grid", c_uint * 3), ("block", c_uint * 3), ("shared_bytes", c_uint), ("stream", c_void_p),
                ("attributes", c_void_p), ("attribute_count", c_uint)]


class _Slot:
    """Memory of one call's launches, and the driver's functions bound to it."""

    __slots__ = ("put", "fires", "ask", "number", "ask_owner", "at", "owner", "configs", "stream", "keep",
                 "descriptors")

    def __init__(self, steps: Sequence[_Step], sizes: Sequence[int], functions: Sequence[int],
                 maps: Sequence[tuple[int, TensorMap]]):
        count = len(_ROLES)
        words = len(maps) * (BYTES // 8)
        # a size's lower half is its int, and so of the border's bits, which stand with them; descriptors last
        block = (c_ulonglong * (count + len(sizes) + words))(*(0,) * count, *sizes)
        self.put: Callable[..., None] = partial(_ADDRESSES.pack_into, block, 0)
        self.stream = 0
        start = ctypes.addressof(block)
        self.fires: list[Callable[[], int]] = []
        self.configs: list[_Config] = []
        for step, function in zip(steps, functions):
            pointers = (c_void_p * len(step.slots))(*(start + 8 * slot for slot in step.slots))
            config = _Config(step.grid, step.block, step.shared_bytes)
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


def _bound(config: _Config, function: c_void_p, pointers: Any) -> Callable[[], int]:
    """A launch without arguments; four ctypes objects are passed in half the time of eleven."""
    if getattr(libcuda(), "cuLaunchKernelEx", None) is not None:
        return partial(unconverted("cuLaunchKernelEx"), byref(config), function, pointers, None)
    launch = unconverted("cuLaunchKernel")
    extents = [c_uint(extent) for extent in (*config.grid, *config.block, config.shared_bytes)]
    return lambda: launch(function, *extents, c_void_p(config.stream), pointers, None)


class _Step:
    """One launch of a layer: what does not depend on the module."""

    __slots__ = ("entry", "grid", "block", "shared_bytes", "slots")

    def __init__(self, step: Launch, shape: ConvShape, numbers: dict[str, int]):
        self.entry = step.entry
        self.grid, self.block = ((*extent, 1, 1)[:3] for extent in (step.grid_of(shape), step.block))
        self.shared_bytes = step.shared_bytes
        self.slots = tuple(numbers[name] for name in step.arguments)


class QuickLaunch:
    """One layer of one kernel in the context that is current at its making.

    ``functions`` are the handles of the steps' kernels; a filter with a constant bank has some of its own
    (``functions_of`` its loaded module)."""

    __slots__ = ("_context", "_number", "_owner", "_constant", "_steps", "_sizes", "_maps", "_functions",
                 "_functions_of", "_free", "_shares_memory")

    def __init__(self, program: Program, shape: ConvShape, loaded: Any, functions_of: Callable[[Any], tuple[int, ...]],
                 *, constant: bool, shares_memory: bool):
        self._context = contexts.context_key()
        self._number = self._context[1]
        self._owner = contexts.current_context()
        self._constant = constant
        self._shares_memory = shares_memory
        numbers = {name: number for number, role in enumerate(_ROLES)
                   if (name := name_of(program, role)) is not None}
        if program.preparation is not None and program.preparation.buffer is not None:
            numbers[program.preparation.buffer.name] = _ROLES.index(Role.WEIGHT)    # it stands in the weight's place
        numbers |= {size.value: len(_ROLES) + number for number, size in enumerate(Dimension)}
        border = program.border_bits(shape)
        numbers |= {name: len(_ROLES) + len(Dimension) for name in border}
        self._sizes = (*(size.of(shape) for size in Dimension), *(bits % 2**32 for bits in border.values()))
        self._maps = tuple((numbers[d.of], d.at(shape)) for d in program.descriptors)
        first, words = len(_ROLES) + len(self._sizes), BYTES // 8
        numbers |= {d.argument: first + words * i for i, d in enumerate(program.descriptors)}
        self._steps = tuple(_Step(step, shape, numbers) for step in program.steps)
        self._functions_of = functions_of
        self._functions = functions_of(loaded)
        self._free: list[_Slot] = []

    def run(self, x: int, w: int, bias: int, residual: int, y: int, stream: int, prepared: Any) -> bool:
        """Queue the layer; False, and nothing is queued, where the context is another one or the filter has to be seen
        to. Raises DeviceError where the driver refuses the launch."""
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
            slot = _Slot(self._steps, self._sizes, functions, self._maps)
        if slot.ask() or slot.number.value != self._number or self._shares_memory and self._is_elsewhere(slot, x):
            free.append(slot)
            return False
        if slot.stream != stream:
            slot.to(stream)
        slot.put(x, w, bias, residual, y)
        if slot.descriptors:
            slot.describe((x, w, bias, residual, y))
        for fire in slot.fires:
            status = fire()
            if status:
                self._refused(slot.fires.index(fire), status)
        free.append(slot)
        return True

    def _is_elsewhere(self, slot: _Slot, pointer: int) -> bool:
        """Whether memory belongs to another context than this one; what belongs to none (pools) does not."""
        slot.at.value = pointer
        return bool(pointer) and slot.ask_owner() == 0 and (slot.owner.value or 0) not in (0, self._owner)

    def _refused(self, number: int, status: int) -> None:
        step = self._steps[number]
        check(status, f"launching {step.entry} with grid {step.grid}, block {step.block} and {step.shared_bytes} bytes "
                      "of shared memory")
