"""Dask and zarr, imported where they are first needed."""

from __future__ import annotations

import importlib
from typing import Any

from warpconv.codegen.errors import ToolNotFound

_OF = {"dask": "dask", "zarr": "dask", "tifffile": "image"}     # a package's extra in setup.cfg


def package(name: str) -> Any:
    """A module of an extra. Raises ToolNotFound where its package is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        top = name.partition(".")[0]
        raise ToolNotFound(f"arrays in chunks need {top}", argument="package", value=top,
                           hint=f'pip install "warpconv[{_OF.get(top, "dask")}]"') from error
