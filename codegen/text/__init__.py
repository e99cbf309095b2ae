"""The last step of emitting: what a template wrote for every plan becomes what this plan needs.

Templates name all constants, helpers and guards that any plan may use, and have the shape of their text. Here unused
ones go, factors that are one and terms that are nothing are folded, and lines are broken.
"""

from __future__ import annotations

from .fold import fold
from .names import Names
from .prune import prune
from .tokens import chain_of, text_of
from .wrap import wrap


def tidy(text: str) -> str:
    """Emitted text as it is read: the same program, without what it does not use."""
    first, _ = chain_of(text)
    names = Names(first.after)
    fold(first, names)
    prune(names)
    return wrap(text_of(first))
