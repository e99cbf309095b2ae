"""Registers of a thread, and the blocks of a multiprocessor."""

from __future__ import annotations

from ..hardware import REGISTER_FILE, Arch
from ..spec import Epilogue, KernelSpec


CALLED = 8          # registers of what an expression calls, beside its value: erf, exp, pow


def step_registers(spec: KernelSpec, outputs: int) -> int:
    """Registers that the epilogue takes in a thread with ``outputs`` results in work: what it adds to them is loaded
    ahead, and steps with functions need room of their own."""
    added = -(-outputs * spec.y_dtype.itemsize // 4) if Epilogue.RESIDUAL in spec.epilogue else 0
    return added + (CALLED if any(step.calls_functions for step in spec.epilogue) else 0)


def resident_blocks(arch: Arch, registers: int, threads: int) -> int:
    """Blocks that a multiprocessor holds when a thread has ``registers`` (given out in eights); at least 1."""
    return max(1, min(REGISTER_FILE // (-(-registers // 8) * 8), arch.resident_threads) // threads)


def largest_divisor(number: int, limit: int) -> int:
    """The largest divisor of ``number`` that is at most ``limit`` (at least 1)."""
    return next(d for d in range(min(number, max(1, limit)), 0, -1) if number % d == 0)
