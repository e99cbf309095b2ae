"""Descriptors of tensors (CUtensorMap), made by the driver and kept by the numbers and the address that they are of."""

from __future__ import annotations

import ctypes
import functools
from ctypes import byref, c_int, c_uint32, c_uint64, c_void_p

from warpconv.codegen.descriptors import BYTES, TensorMap, Walk
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import DeviceError

from .libcuda import check, libcuda

MOST_KEPT = 16384
_HOST_ALIGNMENT = 64            # of the memory that the driver encodes into
_TYPES = {DType.FLOAT16: 6, DType.FLOAT32: 7, DType.BFLOAT16: 9}        # CUtensorMapDataType
_TF32 = 11                      # of float32 elements that are rounded as they come
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}                                # CUtensorMapSwizzle
_NO_INTERLEAVE, _WHOLE_SECTORS, _ZEROS_OUTSIDE = 0, 3, 0        # sectors: the second-level cache fetches 256 bytes
# Drivers up to 13.1 set a bit for im2col descriptors of small arrays that makes their copies wrong; NVIDIA's CUTLASS
# clears it, too (include/cute/atom/copy_traits_sm90_im2col.hpp).
_LAST_WITH_BIT, _SMALL_ARRAY, _BIT = 13010, 128 * 1024, 1 << 21


@functools.lru_cache(maxsize=MOST_KEPT)
def encoded(made: TensorMap, address: int) -> bytes:
    """The descriptor's bytes. Raises DeviceError where the driver has none, or refuses it."""
    function = "cuTensorMapEncodeIm2col" if made.walk is Walk.IM2COL else "cuTensorMapEncodeTiled"
    encode = getattr(libcuda(), function, None)
    if encode is None:
        raise DeviceError("this NVIDIA driver makes no descriptors of tensors",
                          hint="a driver of CUDA 12.0 or later, or algorithm='mma'")
    memory = ctypes.create_string_buffer(BYTES + _HOST_ALIGNMENT)
    offset = -ctypes.addressof(memory) % _HOST_ALIGNMENT
    words = (c_uint64 * (BYTES // 8)).from_buffer(memory, offset)
    rank = len(made.sizes)
    array = (c_uint64 * rank)(*made.sizes), (c_uint64 * max(1, rank - 1))(*made.distances)
    if made.walk is Walk.IM2COL:
        corners = c_int * len(made.lower)
        copied = (corners(*made.lower), corners(*made.upper), c_uint32(made.box[0]), c_uint32(made.box[1]),
                  (c_uint32 * rank)(*made.steps))
    else:
        copied = (c_uint32 * rank)(*made.box), (c_uint32 * rank)(*made.steps)
    kind = _TF32 if made.rounded else _TYPES[made.dtype]
    status = encode(byref(words), c_int(kind), c_uint32(rank), c_void_p(address), *array, *copied,
                    c_int(_NO_INTERLEAVE), c_int(_SWIZZLES[made.swizzle]), c_int(_WHOLE_SECTORS), c_int(_ZEROS_OUTSIDE))
    if status:
        check(status, f"{function} of {made} at {address:#x}")
    if made.walk is Walk.IM2COL and made.nbytes < _SMALL_ARRAY and _driver_version() <= _LAST_WITH_BIT:
        words[1] &= ~_BIT
    return memory.raw[offset:offset + BYTES]


@functools.cache
def _driver_version() -> int:
    version = c_int()
    check(libcuda().cuDriverGetVersion(byref(version)), "asking for the driver's version")
    return version.value
