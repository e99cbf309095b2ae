"""Loads and stores of several elements: their C types, and elements as registers have them."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass

from ..dtypes import Cast, DType
from ..spec import KernelSpec


VECTORS = (8, 4, 2, 1)        # elements of a load or copy, of 16 bytes at most
SATURATING_PACK = (7, 2)      # architecture from which several values become limited integers in one instruction


def packs_limited(spec: KernelSpec) -> bool:
    """Whether a word of integer outputs is made by that instruction."""
    return spec.cast is Cast.NEAREST and (spec.arch.major, spec.arch.minor) >= SATURATING_PACK


@dataclass(frozen=True)
class Vector:
    """A load or store of several elements: its C types in registers and in memory, its zero, its cells (registers)."""

    type: str
    memory: str
    zero: str
    cells: int
    per_cell: int        # elements of a register


def vector_of(dtype: DType, elements: int, outside: str = "") -> Vector:
    """The C types of a vector of ``elements``; ``outside``: what it holds in place of zeros."""
    if dtype is DType.FLOAT32:
        name, outside = "float" if elements == 1 else f"float{elements}", outside or "0.0f"
        zero = outside if elements == 1 else f"make_{name}({', '.join([outside] * elements)})"
        return Vector(name, name, zero, elements, 1)
    if dtype.lanes == 4:         # packed into one word
        memory = {1: dtype.c_name, 2: "unsigned short", 4: "unsigned"}[elements]
        return Vector("unsigned", memory, "0u", 1, elements)
    if elements == 1:
        return Vector("unsigned", "unsigned short", outside or "0u", 1, 1)
    outside = outside or "0u"
    cells = elements // 2
    name = "unsigned" if cells == 1 else f"uint{cells}"
    zero = outside if cells == 1 else f"make_{name}({', '.join([outside] * cells)})"
    return Vector(name, name, zero, cells, 2)
