"""What bounds the plans of ``wide``: its planner refuses beyond, and its rules of defaults stay within."""

from __future__ import annotations

from warpconv.codegen.dtypes import DType
from warpconv.codegen.hardware import THREAD_REGISTERS
from warpconv.codegen.spec import KernelSpec

from .numbers import WideNumbers

BYTES_OF_A_WORD = 4           # outputs of 8 bits that are stored together
VECTOR_BYTES = 16             # of the widest load
TALLEST_FILTER = 63
MOST_REGISTERS = 2 * THREAD_REGISTERS     # planned ones, of which half are spilled
BYTES_OF_AN_FMA = 66          # in the text


def to_bytes(spec: KernelSpec) -> bool:
    """Whether outputs are of 8 bits: four of them are packed to a word (quantised layers)."""
    return spec.y_dtype in (DType.UINT8, DType.INT8)


def shared_bytes(spec: KernelSpec, numbers: WideNumbers) -> int:
    """Of the rows ahead and the filters."""
    return 4 * numbers.shared_floats + spec.dtype.itemsize * numbers.line.elements
