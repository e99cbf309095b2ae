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
        self._cupy: Any = None
        if device == "cuda":
            import cupy
            self._cupy = cupy

    @property
    def takes_host_arrays(self) -> bool:
        """Whether arrays stay in host memory."""
        return self._cupy is None

    def tell(self, what: str) -> None:
        """Say what is tried, in words that a person can make a test of."""
        self.told = what

    def array(self, host: np.ndarray) -> Any:
        """The array where the device takes it; bfloat16, which CuPy lacks, stays in host memory."""
        if self._cupy is None or host.dtype.name == "bfloat16":
            return host
        made = self._cupy.empty(host.shape, host.dtype)
        made.set(np.ascontiguousarray(host))
        return made

    def host(self, array: Any) -> np.ndarray:
        """The array in host memory."""
        return array if isinstance(array, np.ndarray) else self._cupy.asnumpy(array)
