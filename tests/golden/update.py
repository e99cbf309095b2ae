"""``python -m tests.golden.update`` writes the reviewed texts anew; look at the difference before it is committed."""

from __future__ import annotations

from warpconv.codegen.render import render

from .plans import HERE, path_of, plans


def update() -> list[str]:
    """Write what has changed, remove what is no longer listed; the names of both."""
    changed = []
    wanted = plans()
    for name, plan in wanted.items():
        text, path = render(plan).text, path_of(name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path.name)
    for path in HERE.glob("*.cu"):
        if path.stem not in wanted:
            path.unlink()
            changed.append(path.name)
    return changed


if __name__ == "__main__":
    print("\n".join(update()) or "nothing has changed")
