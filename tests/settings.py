"""What the command line of pytest decides for all rings, as modules see it while they are imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

USUAL_SEED = 0
# set by tests/conftest.py before any test module is imported
seed = USUAL_SEED
drawn: int | None = None
update_golden = False
whole = False

DRAWN_ON_CPU = 20
DRAWN_LONG = 80         # on the CPU device in a long test
DRAWN_WHOLE = 200       # and with --whole
DRAWN_ON_GPU = 3000


def drawn_on_cpu(long: bool = False) -> int:
    """Layers that the CPU ring draws."""
    if drawn is not None:
        return drawn
    return DRAWN_WHOLE if whole else DRAWN_LONG if long else DRAWN_ON_CPU


def drawn_on_gpu() -> int:
    """Layers that the GPU ring draws."""
    return DRAWN_ON_GPU if drawn is None else drawn


def share(items: Sequence[Any], number: int = 0, of: int = 2) -> list:
    """Part ``number`` of the ``of`` parts of a list for what takes long, such as compiling each; all with --whole."""
    return list(items) if whole else list(items)[number::of]


def in_turn(names: Sequence[str], items: Sequence[Any]) -> list[tuple[str, list]]:
    """Each name, such as an architecture, with its part of a list for what takes long; with --whole each with all."""
    return [(name, share(items, number, len(names))) for number, name in enumerate(names)]


def generator(*parts: int) -> np.random.Generator:
    """Random numbers that depend on the run's seed and on ``parts``."""
    return np.random.default_rng([seed, *parts])
