"""What cases of the fuzzer share: the device, a folder, and the words for what is being tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


class World:
    """``device``: 'cpu' or 'cuda'; arrays are put there by CuPy, which then has to be installed."""

    def __init__(self, device: str, folder: Path) -> None:
        self.device, self.folder = device, folder
        self.told = ""
        self.calls = 0
        self._cupy: Any = None
        if device == "cuda":
            import cupy
            self._cupy = cupy

    def tell(self, what: str) -> None:
        """Say what is tried, in words that a person can make a test of."""
        self.told = what

    def tried(self) -> int:
        """Calls since this was last asked, one at least."""
        calls, self.calls = max(1, self.calls), 0
        return calls

    def keeps(self, *arrays: np.ndarray | None) -> bool:
        """Whether all of a call's arrays stay in host memory, since CuPy has no such type."""
        return self._cupy is None or any(a is not None and a.dtype.name == "bfloat16" for a in arrays)

    def array(self, host: np.ndarray, stays: bool = False) -> Any:
        """The array where the device takes it, with its strides."""
        return host if stays else self.placed(host)[0]

    def placed(self, host: np.ndarray) -> tuple[Any, Any]:
        """The array on the device, and the larger one whose part it is there too (else itself); bfloat16, which CuPy
        lacks, stays in host memory."""
        whole = host
        while isinstance(whole.base, np.ndarray) and whole.base.dtype == host.dtype:
            whole = whole.base
        if self._cupy is None or host.dtype.name == "bfloat16":
            return host, whole
        if not whole.flags.c_contiguous:
            host = whole = np.ascontiguousarray(host)
        made = self._cupy.empty(whole.shape, whole.dtype)
        made.set(whole)
        offset = host.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        return self._cupy.ndarray(host.shape, host.dtype, made.data + offset, host.strides), made

    def host(self, array: Any) -> np.ndarray:
        """The array in host memory."""
        return array if isinstance(array, np.ndarray) else self._cupy.asnumpy(array)
