"""``python -m tests.cover`` writes the covering arrays of tests/cases.py to tests/covering.json.

To search them takes over a minute; they are read from there as long as the axes and the planners (whose answers the
search asks for) are what they were, and searched anew where not.
"""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any, Mapping

from .axes import AXES

HERE = Path(__file__).parent
FILE = HERE / "covering.json"
SOURCES = (HERE.parent / "codegen", HERE / "axes")
WRITERS = ("banner.py", "render.py", "serialise.py", "version.py")      # of codegen: nothing to planners


@functools.lru_cache(maxsize=1)
def state() -> str:
    """Digest of all that the search depends on: the planners' code and the axes, with the search itself."""
    digest = hashlib.blake2b(digest_size=16)
    read = [path for root in SOURCES for path in root.rglob("*.py") if path.name not in WRITERS]
    for path in sorted([*read, HERE / "cases.py"]):
        digest.update(f"{path.relative_to(HERE.parent)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


@functools.lru_cache(maxsize=1)
def kept() -> Mapping[str, list[list[int]]] | None:
    """Each algorithm's rows as places in its axes; None where the file is of another state, or not there."""
    if not FILE.exists():
        return None
    document = json.loads(FILE.read_text(encoding="utf-8"))
    return document["rows"] if document["state"] == state() else None


def rows(algorithm: str) -> tuple[dict[str, Any], ...] | None:
    """The kept covering array of an algorithm, as values of its axes."""
    if kept() is None:
        return None
    axes = AXES[algorithm]
    return tuple({name: axes[name][place] for name, place in zip(axes, picks)} for picks in kept()[algorithm])


def write() -> None:
    from . import cases
    found = {}
    for algorithm, axes in AXES.items():
        made = cases.search(algorithm)
        found[algorithm] = [[_place(axes[name], row[name]) for name in axes] for row in made]
    lines = ",\n".join(f'  "{name}": {json.dumps(picks, separators=(",", ":"))}' for name, picks in found.items())
    FILE.write_text(f'{{"state": "{state()}", "rows": {{\n{lines}}}}}\n', encoding="utf-8")


def _place(values: tuple, value: Any) -> int:
    return next(i for i, other in enumerate(values) if type(other) is type(value) and other == value)


if __name__ == "__main__":
    write()
