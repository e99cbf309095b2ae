"""Numerics: the arithmetic of a kernel, as a pair of what its sums are kept in and how exact its products are.

What is asked for and what a kernel has are of the same type. ``FLOAT32``, the default, leaves it open how float32
layers are computed: by any arithmetic that is as exact as float32 units are (docs/precision.md has the bound). A
kernel of FLOAT32 is one of float32 units, which ``IEEE`` demands; ``answers`` tells which kernels answer a wish.
"""

from __future__ import annotations

import enum

from .dtypes import DType, type_name
from .errors import ArgumentError

# Products of an output from which TF32X3 and FP16X3 are no less exact than float32 units that add them one after the
# other (docs/results/precision); below, what they drop of a product weighs more than their roundings
LEAST_PRODUCTS = 96


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
    """How exact the products of float32 elements are."""

    FLOAT32 = "float32"     # the default: as exact as IEEE, by whatever is quickest
    IEEE = "ieee"           # products and sums of float32 units
    TF32X3 = "tf32x3"       # on the tensor cores, each factor in two parts of TF32, three products of four
    FP16X3 = "fp16x3"       # on the tensor cores, each factor scaled, in two parts of float16, three products of four
    TF32 = "tf32"           # on the tensor cores, each factor rounded to TF32: three digits

    @classmethod
    def parse(cls, value: Precision | str, argument: str = "precision") -> Precision:
        """A precision by its name; ArgumentError for another."""
        if isinstance(value, cls):
            return value
        for made in cls:
            if made.value == str(value):
                return made
        raise ArgumentError("unknown precision", argument=argument, value=value,
                            hint=f"one of {', '.join(e.value for e in cls)}")


class Numerics(enum.Enum):
    """The arithmetic of the products and sums: a pair of accumulator and precision, of those that kernels have.
    FLOAT16 and TF32 are less accurate, and only done where they are asked for; INT32, exact while sums stay below 2^31,
    is that of integer filters. The value is the name that files hold."""

    FLOAT32 = "float32", Accumulator.FLOAT32, Precision.FLOAT32
    FLOAT16 = "float16", Accumulator.FLOAT16, Precision.FLOAT32
    INT32 = "int32", Accumulator.INT32, Precision.FLOAT32
    IEEE = "ieee", Accumulator.FLOAT32, Precision.IEEE
    TF32X3 = "tf32x3", Accumulator.FLOAT32, Precision.TF32X3
    FP16X3 = "fp16x3", Accumulator.FLOAT32, Precision.FP16X3
    TF32 = "tf32", Accumulator.FLOAT32, Precision.TF32

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
    def of(cls, accumulator: Accumulator | str | None = None, precision: Precision | str = Precision.FLOAT32,
           argument: str = "accum_dtype") -> Numerics:
        """The arithmetic of a pair, or of its names (float32 sums for None). ArgumentError for an unknown name, and
        where no kernel has the pair; ``argument``: what the accumulator is called."""
        name = "float32" if accumulator is None else type_name(getattr(accumulator, "value", accumulator))
        if name not in {e.value for e in Accumulator}:
            raise ArgumentError("unknown arithmetic", argument=argument, value=accumulator,
                                hint=f"one of {', '.join(e.value for e in Accumulator)}")
        asked = Accumulator(name), Precision.parse(precision)
        for made in cls:
            if (made.accumulator, made.precision) == asked:
                return made
        raise ArgumentError(f"no kernel sums in {asked[0].value} with {asked[1].value} products", argument="precision",
                            value=asked[1].value, hint="a precision is for sums in float32: leave one of the two out")

    def with_precision(self, precision: Precision | str) -> Numerics:
        """The same with such products. ArgumentError where no kernel has the pair, or this has others."""
        wanted = Precision.parse(precision)
        if wanted in (Precision.FLOAT32, self.precision):
            return self
        if self.precision is not Precision.FLOAT32:
            raise ArgumentError(f"the arithmetic has {self.precision.value} products already", argument="precision",
                                value=wanted.value, hint="leave one of the two out")
        return Numerics.of(self.accumulator, wanted, "numerics")

    @property
    def dropped(self) -> float:
        """How much of a product of float32 elements is left out at most, as a share of it (docs/precision.md)."""
        return {Numerics.TF32X3: 2.0**-20, Numerics.FP16X3: 2.0**-20,
                Numerics.TF32: 2.0**-10 + 2.0**-20}.get(self, 0.0)

    def answers(self, dtype: DType, products: int) -> tuple[Numerics, ...]:
        """The kernels' arithmetic that answers this wish for layers of such elements, ``products`` of them in each
        sum."""
        if dtype is not DType.FLOAT32:
            return (self,)
        if self is Numerics.IEEE:
            return (Numerics.FLOAT32,)
        exact: tuple[Numerics, ...] = (Numerics.FLOAT32,)
        if products >= LEAST_PRODUCTS:
            exact += Numerics.TF32X3, Numerics.FP16X3
        if self is Numerics.TF32:       # what is more exact will do: of most layers there is no kernel in TF32
            return self, *exact
        return exact if self is Numerics.FLOAT32 else (self,)
