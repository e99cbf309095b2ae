"""Element types and array layouts, each with its spellings in C, NumPy and on the command line."""

from __future__ import annotations

import enum
from typing import Any, TypeVar

from .errors import ArgumentError

T = TypeVar("T")


class Kind(enum.Enum):
    """What the bits of an element mean."""

    FLOAT = "float"
    SIGNED = "signed"
    UNSIGNED = "unsigned"


def type_name(value: Any) -> str:
    """What an element type of NumPy, CuPy or PyTorch is called; of anything else its text."""
    return value.__name__ if isinstance(value, type) else str(value).removeprefix("torch.")


class DType(enum.Enum):
    """Element type of a tensor; the value is NumPy's name (and torch's)."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    UINT8 = "uint8"
    INT8 = "int8"
    UINT16 = "uint16"
    INT16 = "int16"
    INT32 = "int32"

    _itemsize: int
    _kind: Kind

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._itemsize

    @property
    def bits(self) -> int:
        """Bits of one element."""
        return 8 * self._itemsize

    @property
    def lanes(self) -> int:
        """Elements in a 32-bit word."""
        return 4 // self._itemsize

    @property
    def kind(self) -> Kind:
        """What its bits mean."""
        return self._kind

    @property
    def is_float(self) -> bool:
        return self._kind is Kind.FLOAT

    @property
    def is_integer(self) -> bool:
        return self._kind is not Kind.FLOAT

    @property
    def is_half(self) -> bool:
        """Whether it is a 16-bit floating-point type, whose elements are widened for float32 arithmetic, or go in pairs
        through instructions of their own."""
        return self._kind is Kind.FLOAT and self._itemsize == 2

    @property
    def limits(self) -> tuple[int, int]:
        """Least and largest value of an integer type."""
        return (0, 2**self.bits - 1) if self._kind is Kind.UNSIGNED else (-2**(self.bits - 1), 2**(self.bits - 1) - 1)

    @property
    def c_name(self) -> str:
        """The element type in emitted text."""
        return _C_NAME[self]

    @classmethod
    def parse(cls, value: Any, argument: str = "dtype") -> DType:
        """``value`` as a DType: a name, or an element type of NumPy, CuPy or PyTorch, which have the same names;
        ArgumentError if there is none of that name."""
        if isinstance(value, cls):
            return value
        try:
            return cls(type_name(value))
        except ValueError:
            raise ArgumentError("unknown element type", argument=argument, value=value,
                                hint=f"one of {', '.join(t.value for t in cls)}") from None


class Cast(enum.Enum):
    """How a value becomes an integer element."""

    NEAREST = "nearest"     # rounded to nearest even; beyond the type's range, its end
    TRUNCATE = "truncate"   # rounded to zero, then modulo 2^bits: as C and NumPy cast

    @classmethod
    def parse(cls, value: Cast | str, argument: str = "cast") -> Cast:
        """``value`` as a Cast; ArgumentError if there is none of that name."""
        if isinstance(value, cls):
            return value
        try:
            return cls(value)
        except ValueError:
            raise ArgumentError("unknown cast", argument=argument, value=value,
                                hint=f"one of {', '.join(t.value for t in cls)}") from None


class Layout(enum.Enum):
    """Order of a tensor's axes in memory."""

    NCHW = "NCHW"
    NHWC = "NHWC"

    @classmethod
    def parse(cls, value: Layout | str, argument: str = "layout") -> Layout:
        """``value`` as a Layout; ArgumentError if there is none of that name."""
        if isinstance(value, cls):
            return value
        try:
            return cls(str(value))
        except ValueError:
            raise ArgumentError("unknown layout", argument=argument, value=value,
                                hint=f"one of {', '.join(t.value for t in cls)}") from None

    def stored(self, sizes: tuple[T, ...]) -> tuple[T, ...]:
        """(N, C, H, W), of volumes (N, C, D, H, W), in the order of this layout's axes."""
        if self is Layout.NCHW:
            return sizes
        n, c, *image = sizes
        return n, *image, c

    def logical(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The inverse of stored: this layout's axes as (N, C, H, W) or (N, C, D, H, W)."""
        if self is Layout.NCHW:
            return sizes
        n, *image, c = sizes
        return n, c, *image


_ITEMSIZE = {DType.FLOAT32: 4, DType.FLOAT16: 2, DType.BFLOAT16: 2, DType.UINT8: 1, DType.INT8: 1, DType.UINT16: 2,
             DType.INT16: 2, DType.INT32: 4}
for _dtype, _bytes in _ITEMSIZE.items():
    _dtype._itemsize = _bytes      # attributes: asked for in every call, and hashing an Enum member is slow
    _dtype._kind = (Kind.FLOAT if "float" in _dtype.value else
                    Kind.UNSIGNED if _dtype.value.startswith("u") else Kind.SIGNED)
_C_NAME = {DType.FLOAT32: "float", DType.FLOAT16: "unsigned short", DType.BFLOAT16: "unsigned short",
           DType.UINT8: "unsigned char", DType.INT8: "signed char", DType.UINT16: "unsigned short",
           DType.INT16: "short", DType.INT32: "int"}
