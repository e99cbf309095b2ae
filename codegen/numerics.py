"""Numerics: the arithmetic of a kernel, as a pair of what its sums are kept in and how exact its products are."""

from __future__ import annotations

import enum

from .errors import ArgumentError


class Accumulator(enum.Enum):
    """What products are summed in."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"     # the 16-bit elements' own type, bfloat16 too
    INT32 = "int32"

    @property
    def is_integer(self) -> bool:
        return self is Accumulator.INT32

    @property
    def c_name(self) -> str:
        """The type of the sums in emitted text, where they are words."""
        return "int" if self.is_integer else "float"


class Precision(enum.Enum):
    """What the factors of a product keep of their digits. Forms that keep fewer, or make up for it by several
    products (tf32, tf32x3, fp16x3), are further members, and their pairs further Numerics."""

    FULL = "full"


class Numerics(enum.Enum):
    """The arithmetic of the products and sums: a pair of accumulator and precision, of those that kernels have.
    FLOAT16 is less accurate, and only done where it is asked for; INT32, exact while sums stay below 2^31, is that of
    integer filters. The value is the name that people write and files hold."""

    FLOAT32 = "float32", Accumulator.FLOAT32, Precision.FULL
    FLOAT16 = "float16", Accumulator.FLOAT16, Precision.FULL
    INT32 = "int32", Accumulator.INT32, Precision.FULL

    accumulator: Accumulator
    precision: Precision

    def __new__(cls, value: str, accumulator: Accumulator, precision: Precision) -> Numerics:
        made = object.__new__(cls)
        made._value_, made.accumulator, made.precision = value, accumulator, precision
        return made

    @classmethod
    def parse(cls, value: Numerics | str, argument: str = "numerics") -> Numerics:
        """``value`` as Numerics; ArgumentError if there are none of that name."""
        if isinstance(value, cls):
            return value
        for made in cls:
            if made.value == str(value):
                return made
        raise ArgumentError("unknown arithmetic", argument=argument, value=value,
                            hint=f"one of {', '.join(e.value for e in cls)}")

    @classmethod
    def of(cls, accumulator: Accumulator | str, precision: Precision | str = Precision.FULL) -> Numerics:
        """The arithmetic of a pair, or of its names; ArgumentError where no kernel has it."""
        asked = tuple(getattr(part, "value", part) for part in (accumulator, precision))
        for made in cls:
            if (made.accumulator.value, made.precision.value) == asked:
                return made
        raise ArgumentError(f"no kernel sums in {asked[0]} with {asked[1]} precision", argument="precision",
                            value=asked[1],
                            hint="; ".join(f"{e.accumulator.value} with {e.precision.value}" for e in cls))
