"""Registers of a thread, and the blocks of a multiprocessor."""

from __future__ import annotations

from ..hardware import LANES, QUARTERS, REGISTER_FILE, REGISTER_UNIT, THREAD_REGISTERS, Hardware
from ..spec import Epilogue, KernelSpec


MANY_TAPS = 40      # whose places, found by the border, compilers do not always have registers for
MOST_PLANNED = 200  # registers of a thread: compilers keep some room
CALLED = 8          # registers of what an expression calls, beside its value: erf, exp, pow


def step_registers(spec: KernelSpec, outputs: int) -> int:
    """Registers that the epilogue takes in a thread with ``outputs`` results in work: what it adds to them is loaded
    ahead, and steps with functions need room of their own."""
    added = -(-outputs * spec.y_dtype.itemsize // 4) if Epilogue.RESIDUAL in spec.epilogue else 0
    return added + (CALLED if any(step.calls_functions for step in spec.epilogue) else 0)


def has_many_places(spec: KernelSpec) -> bool:
    """Whether pixels stand in the padding and taps are so many that compilers, which find the places of all of them
    ahead, may spill some."""
    return spec.padding_mode.reads_image and spec.r * spec.s > MANY_TAPS


def thread_registers(warps: int, blocks: int) -> int:
    """Registers that a thread may have where a multiprocessor shall hold so many blocks of ``warps``, which its
    quarters share out."""
    fitting = REGISTER_FILE // QUARTERS // (LANES * -(-warps * blocks // QUARTERS))
    return min(THREAD_REGISTERS, fitting // REGISTER_UNIT * REGISTER_UNIT)


def most_planned(threads: int) -> int:
    """Registers that may be planned for a thread of a block of so many."""
    return min(MOST_PLANNED, thread_registers(-(-threads // LANES), 1))


def resident_blocks(hardware: Hardware, registers: int, threads: int) -> int:
    """Blocks that a multiprocessor holds when a thread has ``registers``, by these and its threads, which come in whole
    warps: a block of 33 has registers of 64; at least 1."""
    fitting = REGISTER_FILE // (-(-registers // REGISTER_UNIT) * REGISTER_UNIT)
    return max(1, min(fitting, hardware.resident_threads) // (-(-threads // LANES) * LANES))


def held_blocks(hardware: Hardware, registers: int, threads: int, shared_bytes: int) -> int:
    """The same of blocks that also have ``shared_bytes`` of shared memory each, which may take all of it."""
    by_shared = hardware.shared_multiprocessor // (shared_bytes + hardware.shared_reserved)
    return max(1, min(resident_blocks(hardware, registers, threads), by_shared))


def blocks_refusal(spec: KernelSpec, threads: int, blocks: int) -> str | None:
    """None, or in words why a multiprocessor never has so many ``blocks`` of ``threads``."""
    held = spec.hardware.resident_threads
    if threads * blocks <= held:
        return None
    return f"min_blocks = {blocks} of {threads} threads: {spec.arch} holds {held}, {held // threads} such blocks"


def blocks_by_quarters(hardware: Hardware, registers: int, warps: int) -> int:
    """The same of blocks of so many warps, of which each quarter of a multiprocessor has registers for whole ones: what
    ptxas goes by on sm_120, where fewer registers than were planned make spills."""
    allocated = -(-registers // REGISTER_UNIT) * REGISTER_UNIT
    fitting = QUARTERS * (REGISTER_FILE // QUARTERS // (allocated * LANES))
    return max(1, min(fitting, hardware.resident_threads // LANES) // warps)


def fitting_blocks(hardware: Hardware, registers: int, warps: int, shared_bytes: int) -> int:
    """The same of blocks that also have ``shared_bytes`` of shared memory each, and of which a multiprocessor holds so
    many at most."""
    by_shared = hardware.shared_multiprocessor // (shared_bytes + hardware.shared_reserved)
    return max(1, min(blocks_by_quarters(hardware, registers, warps), by_shared, hardware.resident_blocks))


def rounds_of(hardware: Hardware, blocks: int, resident: int) -> list[tuple[int, int]]:
    """How often the chip has how many blocks on a multiprocessor: ``resident`` as often as that fills it, and in a last
    round those that are left."""
    rounds, rest = divmod(blocks, resident * hardware.multiprocessors)
    return [(times, held) for times, held in ((rounds, resident), (1, -(-rest // hardware.multiprocessors))) if held]


def blocks_by_shared(hardware: Hardware, filled: int, shared_bytes: int) -> int:
    """Blocks of ``shared_bytes`` that fit in as much of a multiprocessor's shared memory as ``filled`` bytes are of an
    H200's; at least 1."""
    return max(1, hardware.share_of_shared(filled) // max(1, shared_bytes))


def largest_divisor(number: int, limit: int) -> int:
    """The largest divisor of ``number`` that is at most ``limit`` (at least 1)."""
    return next(d for d in range(min(number, max(1, limit)), 0, -1) if number % d == 0)
