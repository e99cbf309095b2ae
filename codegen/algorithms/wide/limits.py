"""What bounds the plans of ``wide``: its planner refuses beyond, and its rules of defaults stay within."""

from __future__ import annotations

from warpconv.codegen.hardware import THREAD_REGISTERS
from warpconv.codegen.spec import KernelSpec

from .numbers import WideNumbers

VECTOR_BYTES = 16             # of the widest load
TALLEST_FILTER = 63
MOST_REGISTERS = 2 * THREAD_REGISTERS     # planned ones, of which half are spilled
BYTES_OF_AN_FMA = 66          # in the text


def to_words(spec: KernelSpec) -> bool:
    """Whether outputs are integers of 8 or 16 bits, which are packed to words."""
    return spec.y_dtype.is_integer and spec.y_dtype.lanes > 1


def most_stored(spec: KernelSpec, vector: int) -> int:
    """Outputs of a lane that are stored together where ``vector`` inputs are loaded: of 8 bits a word's at most."""
    return min(vector, spec.y_dtype.lanes) if spec.y_dtype.bits == 8 else vector


def shared_bytes(spec: KernelSpec, numbers: WideNumbers) -> int:
    """Of the rows ahead and the filters."""
    return 4 * numbers.shared_floats + spec.dtype.itemsize * numbers.line.elements
