"""``python -m tests.golden.update [ROOM...]`` writes the reviewed texts of these rooms (of all) anew; look at the
difference before it is committed."""

from __future__ import annotations

import sys

from tests import algorithms, golden
from warpconv.codegen.render import render


def update(room: str) -> list[str]:
    """Write what has changed, remove what is no longer listed; the names of both."""
    changed = []
    wanted, folder = golden.plans(room), golden.folder(room)
    folder.mkdir(exist_ok=True)
    for name, plan in wanted.items():
        text, path = render(plan).text, folder / f"{name}.cu"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path.name)
    for path in folder.glob("*.cu"):
        if path.stem not in wanted:
            path.unlink()
            changed.append(path.name)
    return changed


if __name__ == "__main__":
    found = [name for room in sys.argv[1:] or algorithms.ROOMS for name in update(room)]
    print("\n".join(found) or "nothing has changed")
