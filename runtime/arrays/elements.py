"""Elements of tensors in host memory: their values, arrays made of values, and what rounding to them may change.

bfloat16 arrays are ml_dtypes' where it is installed; their 16 bits may also come as uint16, or as NumPy reads them from
a .npy file that ml_dtypes wrote: as '|V2'.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpconv.codegen.dtypes import DType

from . import numpy_dtype


class Format(NamedTuple):
    """A binary floating-point type: ``digits`` significant bits (the hidden one counted), exponents up to ``largest``
    for numbers below 2, down to ``smallest`` for normal ones."""

    digits: int
    largest: int
    smallest: int

    @property
    def roundoff(self) -> float:
        """u: rounding to nearest changes a normal number by at most u times it (half a unit in the last place)."""
        return 2.0 ** -self.digits

    @property
    def half_step(self) -> float:
        """Rounding to nearest changes a subnormal number by at most this: half the smallest subnormal."""
        return 2.0 ** (self.smallest - self.digits)

    @property
    def overflow(self) -> float:
        """The least magnitude that rounds to infinity: half a unit in the last place above the largest number."""
        return (2.0 - self.roundoff) * 2.0 ** self.largest


FORMATS = {DType.FLOAT32: Format(24, 127, -126), DType.FLOAT16: Format(11, 15, -14),
           DType.BFLOAT16: Format(8, 127, -126)}


def values(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The elements as numbers that NumPy computes with: float32 for 16-bit floats (exactly), else the array itself."""
    if dtype is DType.BFLOAT16 and array.dtype.itemsize == 2 and array.dtype.kind in "uV":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32) if dtype.itemsize == 2 and dtype in FORMATS else array


def stored(numbers: np.ndarray, dtype: DType) -> np.ndarray:
    """Float32 numbers rounded to elements. Raises ArgumentTypeError for bfloat16 without ml_dtypes."""
    with np.errstate(over="ignore"):
        return np.asarray(numbers).astype(numpy_dtype(dtype))


def from_bits(array: np.ndarray, dtype: DType) -> np.ndarray:
    """An array whose elements are bfloat16 stored as 16 bits (uint16 or '|V2') as bfloat16; any other as it is.

    Raises ArgumentTypeError without ml_dtypes.
    """
    if dtype is DType.BFLOAT16 and (array.dtype == np.uint16 or array.dtype == np.dtype("V2")):
        return array.view(numpy_dtype(dtype))
    return array


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Random elements: normally distributed floats; integers over the whole range of 8 bits, and of 16; small ones of
    32 bits, so that sums stay exact. Raises ArgumentTypeError for bfloat16 without ml_dtypes."""
    if dtype.is_float:
        return stored(rng.standard_normal(shape, dtype=np.float32), dtype)
    least, most = dtype.limits if dtype is not DType.INT32 else (-100, 100)
    return rng.integers(least, most, shape, numpy_dtype(dtype), endpoint=True)
