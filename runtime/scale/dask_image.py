"""Our filters under dask-image's names.

dask-image asks a dispatcher for each of its functions by the type of an array's chunks, and takes what is registered
last for it. The dispatchers are no public names of it (``dask_image.dispatch._dispatch_ndfilters``), but they are how
its own CuPy support is registered. Overlaps, borders at chunks' edges and result types stay dask-image's.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

import numpy as np

import warpconv.runtime.ndimage.correlate as correlations
from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import ToolNotFound
from warpconv.runtime.ndimage import derivatives, filters
from warpconv.runtime.ndimage.target import name_of

from . import places
from .arrays import check_device

NAMES = {**dict.fromkeys(("correlate", "convolve"), correlations),
         **dict.fromkeys(("gaussian_filter", "uniform_filter"), filters),
         **dict.fromkeys(("sobel", "prewitt", "laplace", "gaussian_laplace", "gaussian_gradient_magnitude"),
                         derivatives)}


@dataclass(frozen=True)
class OnChunk:
    """A function on a chunk, as dask-image calls SciPy's."""

    name: str
    device: str
    algorithm: str
    dtype: str | None

    def __call__(self, block: Any, **options: Any) -> Any:
        def call(array: Any, device: str, stream: Any) -> Any:
            return getattr(NAMES[self.name], self.name)(array, **options, device=device, stream=stream,
                                                        algorithm=self.algorithm, dtype=self.dtype)
        return places.run(call, block, self.device, ())

    def of(self, *image: Any) -> OnChunk:
        """What a dispatcher gives for an image."""
        return self


class Registered:
    """Our functions under dask-image's; ``with`` it, until its end."""

    def __init__(self, before: list[tuple[Any, type, Any]]):
        self._before = before

    def undo(self) -> None:
        """dask-image's functions as they were."""
        while self._before:
            dispatcher, kind, function = self._before.pop()
            dispatcher.register(kind, function)

    def __enter__(self) -> Registered:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.undo()


def register(*, device: str = "auto", algorithm: str = "auto", dtype: Any = None) -> Registered:
    """Put warpconv's filters under dask_image.ndfilters' names: its correlate, convolve, gaussian_filter,
    uniform_filter, sobel, prewitt, laplace, gaussian_laplace and gaussian_gradient_magnitude run warpconv's kernels in
    arrays made from now on.

    Parameters
    ----------
    device : str
        Where chunks of NumPy are filtered, as in warpconv.dask; those of CuPy stay where they are.
    algorithm : str
        'auto', or the name of one.
    dtype : element type, optional
        What chunks are filtered as; with 'float32' those of float64 and wide integers are served, too.

    Returns
    -------
    Registered
        ``.undo()`` gives dask-image its own functions back; so does the end of a ``with`` block.

    Raises
    ------
    ToolNotFound
        dask-image is not installed, or has no such dispatchers.
    ArgumentError, ArgumentTypeError
        An unknown device or element type.
    """
    check_device(device)
    named = None if dtype is None else name_of(dtype, "dtype")
    try:
        import dask_image.dispatch._dispatch_ndfilters as dispatchers
        found = {name: getattr(dispatchers, f"dispatch_{name}") for name in NAMES}
    except (ImportError, AttributeError) as error:
        raise ToolNotFound("there is no dask-image whose filters can be replaced", argument="package",
                           value="dask-image", hint="pip install dask-image") from error
    kinds = [np.ndarray] + ([sys.modules["cupy"].ndarray] if "cupy" in sys.modules else [])
    before = []
    for name, dispatcher in found.items():
        for kind in kinds:
            before.append((dispatcher, kind, dispatcher.dispatch(kind)))
            dispatcher.register(kind, OnChunk(name, device, algorithm, named).of)
    return Registered(before)
