"""What lies outside of an image: the border modes, under the name that each library has for them.

The names clash: SciPy's "reflect" repeats the edge, torch's does not, and what torch calls "replicate" is SciPy's
"nearest". Ours outside are torch's (``padding_mode``), with "symmetric" and "constant" beside them; ``named`` gives a
mode from any library's name.
"""

from __future__ import annotations

import enum
import math
import struct
from typing import Any

from .dtypes import DType, Kind
from .errors import ArgumentError, ArgumentTypeError


class Border(enum.Enum):
    """A border mode; beside each, what stands left and right of a row a b c d."""

    ZEROS = "zeros"             # 0 0 0 | a b c d | 0 0 0
    CONSTANT = "constant"       # v v v | a b c d | v v v
    REPLICATE = "replicate"     # a a a | a b c d | d d d
    REFLECT = "reflect"         # d c b | a b c d | c b a
    SYMMETRIC = "symmetric"     # c b a | a b c d | d c b
    CIRCULAR = "circular"       # b c d | a b c d | a b c

    @classmethod
    def parse(cls, value: Border | str, argument: str = "padding_mode") -> Border:
        """A mode by our (torch's) name. Raises ArgumentError for another, with ours where one library has that name."""
        if isinstance(value, cls):
            return value
        try:
            return cls(value)
        except ValueError:
            meant = ", ".join(f"{library}'s {value!r} is {names[value].value!r}" for library, names in NAMES.items()
                              if isinstance(value, str) and value in names)
            raise ArgumentError("unknown border", argument=argument, value=value,
                                hint=meant or f"one of {', '.join(mode.value for mode in cls)}") from None

    @classmethod
    def named(cls, name: str, library: str, argument: str = "mode") -> Border:
        """A mode by a library's name: 'scipy' (CuPy's too), 'torch', 'opencv' (CV-CUDA's too) or 'numpy' (numpy.pad).

        Raises ArgumentError for a name, or a library, that is not known.
        """
        if library not in NAMES:
            raise ArgumentError("no names of this library are known", argument="library", value=library,
                                hint=f"one of {', '.join(NAMES)}")
        names = NAMES[library]
        if not isinstance(name, str) or name not in names:
            raise ArgumentError(f"{library} has no such border", argument=argument, value=name,
                                hint=f"one of {', '.join(names)}")
        return names[name]

    @property
    def reads_image(self) -> bool:
        """Whether pixels of the image stand outside of it; else one value does."""
        return self not in (Border.ZEROS, Border.CONSTANT)

    def index(self, i: int, size: int) -> int | None:
        """The index in 0 .. size - 1 of what stands at ``i``; None where the border's one value does."""
        return self.pixel(i, size) if 0 <= i < size or self.reads_image else None

    def pixel(self, i: int, size: int) -> int:
        """The index in 0 .. size - 1 of the pixel that stands at ``i``, of a border that reads the image."""
        if 0 <= i < size:
            return i
        if self is Border.REPLICATE:
            return 0 if i < 0 else size - 1
        if self is Border.CIRCULAR:
            return i % size
        period = 2 * size - (2 if self is Border.REFLECT else 0)
        i = i % period if period else 0
        return i if i < size else period - i - (1 if self is Border.SYMMETRIC else 0)


NAMES: dict[str, dict[str, Border]] = {
    "scipy": {"reflect": Border.SYMMETRIC, "grid-mirror": Border.SYMMETRIC, "mirror": Border.REFLECT,
              "nearest": Border.REPLICATE, "wrap": Border.CIRCULAR, "grid-wrap": Border.CIRCULAR,
              "constant": Border.CONSTANT, "grid-constant": Border.CONSTANT},
    "torch": {"zeros": Border.ZEROS, "constant": Border.CONSTANT, "reflect": Border.REFLECT,
              "replicate": Border.REPLICATE, "circular": Border.CIRCULAR},
    "opencv": {"CONSTANT": Border.CONSTANT, "REPLICATE": Border.REPLICATE, "REFLECT": Border.SYMMETRIC,
               "REFLECT_101": Border.REFLECT, "REFLECT101": Border.REFLECT, "DEFAULT": Border.REFLECT,
               "WRAP": Border.CIRCULAR},
    "numpy": {"constant": Border.CONSTANT, "edge": Border.REPLICATE, "reflect": Border.REFLECT,
              "symmetric": Border.SYMMETRIC, "wrap": Border.CIRCULAR},
}


_OF_NO_TYPE = 0.10000000149011612      # 0.1 as float32 has it: no element of 16 bits, no integer


class BorderValue(enum.Enum):
    """What of a border's one value decides a kernel's text; the value itself is an argument of the kernel."""

    ELEMENT = "element"     # the input's type has it exactly
    INTEGER = "integer"     # of integers: another whole number that an int has
    NUMBER = "number"       # any other

    @classmethod
    def of(cls, value: float, dtype: DType) -> BorderValue:
        """What a value is beside elements of a type."""
        if element_bits(dtype, value) is not None:
            return cls.ELEMENT
        return cls.INTEGER if dtype.is_integer and value == int(value) and abs(value) < 2**31 else cls.NUMBER

    @property
    def example(self) -> float:
        """A value that is this beside elements of any type that has such values."""
        return {BorderValue.ELEMENT: 1.0, BorderValue.INTEGER: 100000.0}.get(self, _OF_NO_TYPE)

    def takes(self, other: BorderValue) -> bool:
        """Whether a kernel for values of this kind takes those of another kind."""
        order = tuple(BorderValue)
        return order.index(other) <= order.index(self)


def element_bits(dtype: DType, value: float) -> int | None:
    """A value as an element of the type has it, None where none is exactly the value."""
    if dtype.is_integer:
        least, most = (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1) if dtype.kind is Kind.SIGNED else (
            0, (1 << dtype.bits) - 1)
        return int(value) % (1 << dtype.bits) if value == int(value) and least <= value <= most else None
    if dtype is not DType.FLOAT16:
        bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
        return bits if dtype is DType.FLOAT32 else bits >> 16 if not bits & 0xffff else None
    try:
        packed = struct.pack("<e", value)
    except OverflowError:
        return None
    return struct.unpack("<H", packed)[0] if struct.unpack("<e", packed)[0] == value else None


def argument_bits(c_type: str, dtype: DType, value: float) -> int:
    """A border's value as the 32 bits that a kernel's argument of this C type has, a signed number: a float, an int, or
    (unsigned) a word of elements of the type, which has the value exactly."""
    if c_type == "float":
        word = struct.pack("<f", value)
    elif c_type == "int":
        word = struct.pack("<i", int(value))
    else:
        bits = element_bits(dtype, value)
        assert bits is not None and c_type == "unsigned", (c_type, dtype, value)
        word = struct.pack("<I", sum(bits << dtype.bits * i for i in range(dtype.lanes)))
    number: int = struct.unpack("<i", word)[0]
    return number


def border_value(value: Any, argument: str = "padding_value") -> float:
    """The value outside of the image as float32 has it. Raises ArgumentTypeError for what is no number, ArgumentError
    for one that is not finite in float32."""
    try:
        number: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        number = math.inf
    except (struct.error, TypeError):
        raise ArgumentTypeError("the border's value must be a number", argument=argument, value=value,
                                hint="for instance 0.5") from None
    if not math.isfinite(number):
        raise ArgumentError("the border's value is not finite in float32", argument=argument, value=value,
                            hint="for instance 0.5")
    return number + 0.0     # no negative zero: one kernel for both
