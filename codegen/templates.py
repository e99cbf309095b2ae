"""Where templates are: warpconv's own, those beside algorithms from elsewhere, and what a person lays over them."""

from __future__ import annotations

import functools
import hashlib
import sys
from pathlib import Path, PurePath
from typing import Any

from .classes import dataclass
from .errors import FileError

PACKAGE = "warpconv.templates"
FILENAME = "templates/"     # what Jinja calls the file of a template, before its name
_beside: dict[str, Any] = {}        # by algorithm: the folder of templates that it brought


def beside(algorithm: str) -> Any | None:
    """The folder of templates that an algorithm from elsewhere brought with it."""
    return _beside.get(algorithm)


def bring(algorithm: str, folder: Any) -> None:
    """Have the templates in ``folder`` found for as long as the process lives, by their names in it."""
    _beside[algorithm] = folder


def take_away(algorithm: str) -> None:
    """The inverse of bring."""
    _beside.pop(algorithm, None)


def brought() -> bool:
    """Whether there are algorithms from elsewhere."""
    return bool(_beside)


def package_of(module: str) -> str:
    """The package that a module is, or is in; empty for a module that stands alone."""
    return module if hasattr(sys.modules.get(module), "__path__") else module.rpartition(".")[0]


def _folders() -> list[Any]:
    from importlib import resources     # which a kernel from the disk spares
    return [resources.files(PACKAGE), *_beside.values()]


def find(name: str) -> str | None:
    """The source of a template by its name (``wide/kernel.cu.jinja``); None where there is none."""
    for folder in _folders():
        source = folder.joinpath(*name.split("/"))
        if source.is_file():
            text: str = source.read_text(encoding="utf-8")
            return text
    return None


def names(folder: Any, prefix: str = "") -> list[str]:
    """The templates in a folder, by their names in it."""
    found = []
    for item in folder.iterdir():
        if item.is_dir():
            found += names(item, f"{prefix}{item.name}/")
        elif item.name.endswith(".jinja"):
            found.append(prefix + item.name)
    return sorted(found)


@dataclass(frozen=True)
class Overlay:
    """Templates that take the place of those of the same name, with fragments of their own: (name, source), by name.
    What it names has been read: a later change of a file is another Overlay."""

    files: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, given: Overlay | PurePath | str | None) -> Overlay | None:
        """An overlay as people give it: a folder, read now. Raises FileError where the folder cannot be read or has no
        template of the name of one that there is."""
        return given if given is None or isinstance(given, Overlay) else cls._read(Path(given))

    @classmethod
    def _read(cls, folder: Path) -> Overlay:
        if not folder.is_dir():
            raise FileError("templates to lay over warpconv's are a folder", argument="templates", value=str(folder))
        try:
            found = names(folder)
            files = tuple((name, folder.joinpath(name).read_text(encoding="utf-8")) for name in found)
        except (OSError, ValueError) as error:
            raise FileError(f"the templates cannot be read: {error}", argument="templates",
                            value=str(folder)) from error
        if not any(find(name) is not None for name in found):
            import difflib
            known = [name for place in _folders() for name in names(place)]
            near = difflib.get_close_matches(found[0] if found else "kernel.cu.jinja", known, 3, 0.3)
            raise FileError("no file in this folder has the name of a template", argument="templates",
                            value=str(folder), hint=f"a template is named by its path in the folder: {', '.join(near)}")
        return cls(files)

    @functools.cached_property
    def digest(self) -> str:
        """blake2b over names and sources, 32 hex digits."""
        digest = hashlib.blake2b(digest_size=16)
        for name, source in self.files:
            digest.update(f"{name}\0{len(source)}\0{source}".encode())
        return digest.hexdigest()

    def find(self, name: str) -> str | None:
        """As the function, these first."""
        return self._sources[name] if name in self._sources else find(name)

    @functools.cached_property
    def _sources(self) -> dict[str, str]:
        return dict(self.files)


def failure(error: Exception, asked: str) -> FileError:
    """What Jinja, or what read the text that was made (of the template ``asked``), says about somebody's templates."""
    name, line = getattr(error, "name", None), getattr(error, "lineno", None)
    if line is None:
        import traceback
        for step, at in traceback.walk_tb(error.__traceback__):     # Jinja gives its frames the template's lines
            if step.f_code.co_filename.startswith(FILENAME):
                name, line = step.f_code.co_filename.removeprefix(FILENAME), at
    place = f"{name}, line {line}" if line is not None else asked
    return FileError(f"a template fails: {type(error).__name__}: {error}", argument="templates", value=place)
