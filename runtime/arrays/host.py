"""Arrays of any library in host memory, as NumPy sees them."""

from __future__ import annotations

import ctypes

import numpy as np

from warpconv.codegen.dtypes import DType
from warpconv.runtime.arrays import ArrayView, numpy_dtype


def host_array(view: ArrayView) -> np.ndarray:
    """Host memory of a C-contiguous view as an ndarray, without a copy; the view keeps it alive.

    bfloat16 of other libraries comes as its bits, uint16, so that NumPy need not know the type.
    """
    if isinstance(view.owner, np.ndarray) and view.owner.shape == view.shape and view.owner.flags.c_contiguous:
        return view.owner
    raw = (ctypes.c_char * view.nbytes).from_address(view.pointer)
    element = np.dtype(np.uint16) if view.dtype is DType.BFLOAT16 else numpy_dtype(view.dtype)
    return np.frombuffer(raw, element).reshape(view.shape)
