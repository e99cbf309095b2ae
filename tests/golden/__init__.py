"""Texts under review: each room's plans.py says of which plans, its golden/ has them; update.py writes them."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests import algorithms
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.shape import ConvShape


@functools.cache
def plans(room: str) -> Mapping[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return importlib.import_module(f"tests.algorithms.{room}.plans").plans()


def names(room: str) -> list[str]:
    """The names of a room's files, known without planning anything."""
    return sorted(path.stem for path in folder(room).glob("*.cu"))


def folder(room: str) -> Path:
    return algorithms.HERE / room / "golden"


def plane(size: int, **changes: Any) -> ConvShape:
    """A plane of 512 x 512 under a square filter."""
    return ConvShape(**{**dict(c=1, h=512, w=512, k=1, r=size, s=size, padding="same"), **changes})


def depthwise(size: int, **changes: Any) -> ConvShape:
    """Sixteen channels of 56 x 56, in NHWC."""
    return ConvShape(**{**dict(n=8, c=16, h=56, w=56, k=16, groups=16, r=size, s=size, padding=size // 2,
                               layout="NHWC"), **changes})
