"""A tuning database as a file: JSON with one configuration on a line, replaced as a whole, never half written."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from warpconv.codegen.errors import FileError, WarpconvError
from warpconv.codegen.serialise import decode, encode
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Numerics
from warpconv.runtime import owned, paths

from .records import Database, Origin, Outcome, Subject, Timing, values_of

FORMAT, SCHEMA = "warpconv tuning", 1
LOCK_SECONDS = 60.0
_PLAIN = (str, int, float)


def read(path: Path) -> Database:
    """The database of a file. Raises FileError where it cannot be read or is none."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"the tuning database cannot be read: {error.strerror or error}", argument="database",
                        value=str(path)) from error
    except (WarpconvError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        before = previous(path)
        way_out = f"{before.name} beside it holds the state before the last save; " if paths.exists(before) else ""
        raise FileError(f"this is no tuning database: {_reason(error)}", argument="database", value=str(path),
                        hint=f"{way_out}move the file away to start a new one") from error


def read_or_empty(path: Path) -> Database:
    """As read(); an empty database where there is no file."""
    return read(path) if paths.exists(path) or paths.refusal(path) else Database()


def parse(text: str) -> Database:
    """Raises ValueError, KeyError, TypeError or ArgumentError for what is no database."""
    document = json.loads(text)
    if document["format"] != FORMAT or document["schema"] != SCHEMA:
        raise ValueError(f"format {document['format']!r}, schema {document['schema']!r}")
    origins = {key: decode(Origin, data) for key, data in document["origins"].items()}
    database = Database(origins=origins)
    for layer in document["layers"]:
        subject = Subject(device=_text(layer["device"]), arch=_text(layer["arch"]),
                          shape=decode(ConvShape, layer["layer"]), numerics=Numerics.parse(layer["numerics"]),
                          epilogue=tuple(Epilogue.parse(step) for step in layer["epilogue"]))
        found = [_timing(data, origins) for data in layer["timings"]]
        database.timings[subject] = {timing.name: timing for timing in found}
        if layer.get("copy_us") is not None:
            database.copies[subject] = float(layer["copy_us"])
    return database


def text_of(database: Database) -> str:
    """Sorted, so that equal databases are equal text; one line a configuration, so that a diff can be read."""
    origins = [f'"{key}": {_line(asdict(origin))}' for key, origin in sorted(database.origins.items())]
    layers = []
    for subject in database.subjects():
        head = {"device": subject.device, "arch": subject.arch, "text": str(subject), "layer": encode(subject.shape),
                "epilogue": encode(subject.epilogue), "numerics": subject.numerics.value,
                "copy_us": database.copies.get(subject)}
        rows = sorted(_line(_fields(timing)) for timing in database.of(subject).values())
        layers.append(_line(head)[:-1] + ', "timings": [\n  ' + ",\n  ".join(rows) + "]}")
    return (f'{{"format": "{FORMAT}", "schema": {SCHEMA},\n"origins": {{\n ' + ",\n ".join(origins)
            + '},\n"layers": [\n ' + ",\n ".join(layers) + "]}\n")


def add_to(path: Path, news: Database) -> Database:
    """Merge ``news`` into the file, other processes' work included, and give what is there now.

    The file before is kept beside it. Raises FileError where the place cannot be written or holds no database; ``news``
    is then in a file of the temporary directory, which the error names.
    """
    path = Path(os.path.realpath(path))     # a link stays, what it leads to is replaced
    try:
        with locked(path):
            database = read_or_empty(path)
            database.take(news)
            write(path, database)
            return database
    except OSError as error:        # FileError, too
        raise _rescued(path, news, error) from error


def write(path: Path, database: Database) -> None:
    """Replace the file at once; the one before becomes ``.previous``. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text_of(database))
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        if paths.exists(path):
            _keep_previous(path)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def previous(path: Path) -> Path:
    return path.with_name(path.name + ".previous")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes from writing; its folder is made. Raises FileError where that cannot be."""
    import filelock
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(str(path) + ".lock", timeout=LOCK_SECONDS)
        lock.acquire()
    except (OSError, RuntimeError, NotImplementedError) as error:      # filelock.Timeout is an OSError
        raise FileError(f"the tuning database cannot be written here: {getattr(error, 'strerror', None) or error}",
                        argument="database", value=str(path),
                        hint="set WARPCONV_TUNE_DB, or --database, to a place that can") from error
    try:
        yield
    finally:
        lock.release()


def _keep_previous(path: Path) -> None:
    """The file's present state under its second name, put there in one step; what stands there and is no database of
    ours stays."""
    if os.path.lexists(previous(path)) and not _is_ours(previous(path)):
        return
    aside = path.with_name(f".{path.name}-{os.getpid()}.previous")
    with contextlib.suppress(OSError):      # a file system without links: the replacement itself is safe all the same
        os.link(path, aside)
        os.replace(aside, previous(path))


def _is_ours(path: Path) -> bool:
    """Whether a file begins as text_of() writes it."""
    try:
        return owned.is_file(path) and path.read_bytes()[:200].startswith(f'{{"format": "{FORMAT}"'.encode())
    except OSError:
        return False


def _rescued(path: Path, news: Database, error: OSError) -> FileError:
    handle, name = tempfile.mkstemp(prefix="warpconv-tuning-", suffix=".json")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text_of(news))
    reason = error.message if isinstance(error, WarpconvError) else str(error.strerror or error)
    return FileError(f"the timings could not be added to the tuning database: {reason}", argument="database",
                     value=str(path), hint=f"they are in {name}; warpconv tune --merge adds them to a database")


def _timing(data: dict[str, Any], origins: dict[str, Origin]) -> Timing:
    known = {f.name for f in fields(Timing)}
    if not set(data) <= known:
        raise ValueError(f"unknown field {sorted(set(data) - known)[0]!r} of a timing")
    values = data["values"]
    if not all(isinstance(name, str) and isinstance(value, _PLAIN) for name, value in values.items()):
        raise ValueError("plan values are numbers and text")
    made = Timing(**{**data, "algorithm": _text(data["algorithm"]), "outcome": Outcome(data["outcome"]),
                     "values": values_of(values)})
    if made.origin not in origins:
        raise ValueError(f"no origin {made.origin!r}")
    timed = made.outcome is Outcome.TIMED
    if timed != (isinstance(made.us, (int, float)) and not isinstance(made.us, bool) and made.us > 0):
        raise ValueError(f"a configuration that is {made.outcome.value} with the time {made.us!r}")
    return made


def _fields(timing: Timing) -> dict[str, Any]:
    data = {"algorithm": timing.algorithm, "values": dict(timing.values), "outcome": timing.outcome.value}
    rest = {name: getattr(timing, name) for name in ("us", "low", "high", "samples", "registers", "spills", "reason",
                                                     "source", "origin")}
    return data | {name: value for name, value in rest.items()
                   if value is not None and (value != 0 or name == "spills")}


def _line(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} where text belongs")
    return value


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return str(error)
