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
