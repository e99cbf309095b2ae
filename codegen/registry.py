"""The algorithms there are. Adding one of warpconv's own: its folder here and in templates, and its row; one from
elsewhere comes by ``register``, or by an entry point of an installed package. docs/adding-an-algorithm.md tells how."""

from __future__ import annotations

import re
import sys
import warnings
from importlib import resources
from pathlib import Path, PurePath
from typing import Any

from . import templates as places
from .algorithm import Algorithm
from .algorithms import (bias_gradient, channels, direct, filter_gradient, filter_gradient_mma, filter_gradient_tma,
                         filter_gradient_wgmma, grouped, hankel, hankel_1d, hankel_1d_nhwc, im2col, im2win,
                         implicit_gemm, mma, patch, phases, phases_gemm, phases_mma, phases_wgmma, pixels, pointwise,
                         ragged, reuse, sequence, sequence_gradient, staged, taps, taps_float32, taps_ieee, taps_mma,
                         taps_wgmma, toeplitz, toeplitz_1d, toeplitz_1d_nhwc, toeplitz_float32, toeplitz_nhwc, wgmma,
                         wide)
from .algorithms.course import coarsened, constant, halo_cached, im2win_basic, naive, tiled
from .algorithms.volume import data_gradient, filter_gradient as volume_filter_gradient, plan as volume
from .errors import ArgumentError, ArgumentTypeError, FileError
from .spec import Operation

GROUP = "warpconv.algorithms"       # of entry points; each names an Algorithm
ALGORITHMS: dict[str, Algorithm] = {}      # of forward layers
GRADIENTS: dict[str, Algorithm] = {}       # of other operations
VOLUMES: dict[str, Algorithm] = {}         # of layers of volumes alone, any operation

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def algorithm(name: str) -> Algorithm:
    """The registry's row of that name; ArgumentError if there is none."""
    found = ALGORITHMS.get(name) or GRADIENTS.get(name) or VOLUMES.get(name)
    if found is None:
        raise ArgumentError("unknown algorithm", argument="algorithm", value=name,
                            hint=f"one of auto, {', '.join(ALGORITHMS)}; of gradients {', '.join(GRADIENTS)}; "
                                 f"of volumes {', '.join(_of_volumes())}")
    return found


def _of_volumes() -> list[str]:
    return [name for name, row in {**VOLUMES, **ALGORITHMS, **GRADIENTS}.items() if 3 in row.spatial]


def serving(operation: Operation, axes: int = 2) -> list[Algorithm]:
    """The algorithms that are asked for an operation of layers with so many spatial axes; those of forward layers for
    the data gradient, too."""
    also = Operation.FORWARD if operation is Operation.DATA_GRADIENT else operation
    found = [row for row in (*VOLUMES.values(), *GRADIENTS.values(), *ALGORITHMS.values())
             if row.operation in (operation, also)]
    return [row for row in found if axes in row.spatial] or found       # which say why not


def register(row: Algorithm, templates: PurePath | str | None = None) -> Algorithm:
    """Add an algorithm to those that are chosen from, named, built and tuned; its row again.

    ``templates``: the folder, or the package by its name, whose templates are found beside warpconv's by their names in
    it (``column/kernel.cu.jinja``); None for the folder ``templates`` of the planner's package. Layers that were called
    before keep their kernels (``warpconv.runtime.call.conv.clear()`` forgets them).

    Raises ArgumentTypeError for what is no Algorithm; ArgumentError for a name that is taken or can be no name, a
    planner that is in no file (the key of its kernels comes from there), and a template whose name is taken; FileError
    where there are no templates.
    """
    if not isinstance(row, Algorithm):
        raise ArgumentTypeError("what is registered is an Algorithm", argument="row", value=type(row).__name__,
                                hint="warpconv.codegen.algorithm.Algorithm(name=..., ...)")
    if not _NAME.fullmatch(row.name) or row.name == "auto":
        raise ArgumentError("an algorithm's name is of small letters, digits and '_'", argument="name", value=row.name)
    if row.name in ALGORITHMS or row.name in GRADIENTS or row.name in VOLUMES:
        raise ArgumentError("there is an algorithm of this name", argument="name", value=row.name)
    folder = _folder(row, templates)
    found = places.names(folder)
    if not found:
        raise FileError("an algorithm has templates", argument="templates", value=str(folder),
                        hint=f"{row.name}/kernel.cu.jinja")
    taken = [name for name in found if places.find(name) is not None]
    if taken:
        raise ArgumentError("there is a template of this name", argument="templates", value=taken[0],
                            hint=f"name it {row.name}/...; render(plan, templates=) lays one over another")
    places.bring(row.name, folder)
    return _add(row)


def unregister(name: str) -> None:
    """Take away an algorithm that register() added. Raises ArgumentError for another."""
    if places.beside(name) is None:
        raise ArgumentError("this algorithm was not registered from elsewhere", argument="name", value=name)
    places.take_away(name)
    next(rows for rows in (ALGORITHMS, GRADIENTS, VOLUMES) if name in rows).pop(name)
    _forget()


def _add(row: Algorithm) -> Algorithm:
    of_images = ALGORITHMS if row.operation is Operation.FORWARD else GRADIENTS
    (of_images if 2 in row.spatial else VOLUMES)[row.name] = row
    _forget()
    return row


def _forget() -> None:
    """Digests of sources that are no longer all."""
    render = sys.modules.get("warpconv.codegen.render")
    if render is not None:
        render.forget_sources()


def _folder(row: Algorithm, templates: PurePath | str | None) -> Any:
    file = getattr(sys.modules.get(row.plan.__module__), "__file__", None)
    if file is None:
        raise ArgumentError("a planner is in a module's file", argument="row", value=row.plan.__module__,
                            hint="put it into a .py file, and import it from there")
    package = places.package_of(row.plan.__module__)
    folder: Any
    if templates is None:
        folder = (resources.files(package) if package else Path(file).parent).joinpath("templates")
    elif Path(templates).is_dir():
        folder = Path(templates)
    else:
        try:
            folder = resources.files(str(templates))
        except (ImportError, TypeError, ValueError) as error:
            raise FileError("there is no folder or package of templates", argument="templates",
                            value=str(templates)) from error
    if not folder.is_dir():
        raise FileError("there is no folder of templates", argument="templates", value=str(folder))
    return folder


def _register_installed() -> None:
    """Those of installed packages; what is wrong with one is told, and the others serve."""
    section = f"[{GROUP}]".encode()     # to ask importlib.metadata takes longer than a kernel from the cache
    if not any(section in file.read_bytes() for folder in sys.path
               for file in Path(folder or ".").glob("*-info/entry_points.txt")):
        return
    from importlib.metadata import entry_points
    for point in entry_points(group=GROUP):
        try:
            register(point.load())
        except Exception as error:
            warnings.warn(f"the algorithm {point.name} of an installed package is left out: {error}", RuntimeWarning,
                          stacklevel=2)


for _row in (reuse, wide, patch, pixels, staged, toeplitz, toeplitz_1d, toeplitz_1d_nhwc, toeplitz_float32,
             toeplitz_nhwc, channels, sequence, taps, taps_float32, taps_ieee, grouped, taps_wgmma, taps_mma, pointwise,
             wgmma, mma, implicit_gemm, im2win, im2col, im2win_basic, direct, naive, constant, tiled, halo_cached,
             coarsened, phases, phases_gemm, phases_mma, phases_wgmma, hankel, hankel_1d, hankel_1d_nhwc,
             sequence_gradient, filter_gradient, filter_gradient_mma, filter_gradient_tma, filter_gradient_wgmma,
             bias_gradient, ragged, volume, data_gradient, volume_filter_gradient):
    _add(_row.ALGORITHM)
_register_installed()
