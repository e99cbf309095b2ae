"""Choosing by what was measured: the tuning table that planning takes."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from warpconv.codegen.batch import ASSUMED_IMAGES, shared_batch
from warpconv.codegen.border import Border
from warpconv.codegen.errors import FileError
from warpconv.codegen.hardware import DEFAULT_ARCH, Arch
from warpconv.codegen.numerics import Accumulator, Numerics
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import paths, warned

from . import files
from .records import Database, Origin, Timing
from .user import Stamp, stamp_of, user_file

FARTHEST = 4        # times as many images, or as few, as were measured
_Key = tuple[ConvShape, Numerics]


class Table:
    """A database as codegen.select.Tuning, for one architecture and one device (None: any of that architecture).

    A layer's entry counts for every batch that shares a kernel with the measured one (codegen/batch.py): of several
    that measured with the largest one, and of these the one with the shortest epilogue. Where there is none, the entry
    of the nearest batch within FARTHEST times counts. A border of one value has the
    entry of any value; a layer with another border than zeros that has no entry of its own has that of the same layer
    with zeros, where the border leaves the planner's own values as they are.
    """

    def __init__(self, database: Database, arch: Arch | str, device: str | None = None):
        self.arch, self.device = str(arch), device
        self._found: dict[_Key, tuple[Timing, Origin, ConvShape]] = {}
        ranks: dict[_Key, tuple] = {}
        for subject in database.subjects():
            timed = database.timed(subject)
            if (not timed or subject.arch != self.arch or device not in (None, subject.device)
                    or subject.numerics.accumulator is not Accumulator.FLOAT32):
                continue
            layer = _key(subject.shape), subject.numerics
            rank = subject.shape.n, -len(subject.epilogue), database.date(timed[0])
            if layer not in ranks or rank > ranks[layer]:
                ranks[layer] = rank
                self._found[layer] = timed[0], database.origins[timed[0].origin], subject.shape

    def best(self, shape: ConvShape, arch: Arch,
             numerics: Numerics = Numerics.FLOAT32) -> tuple[str, Mapping[str, Any]] | None:
        """Algorithm and plan values measured quickest for the layer; None where it was not measured on such a GPU."""
        found = self._find(shape, arch, numerics)
        return None if found is None else (found[0].algorithm, dict(found[0].values))

    def origin(self, shape: ConvShape, arch: Arch, numerics: Numerics = Numerics.FLOAT32) -> str:
        """Where best() has it from, in words."""
        found = self._find(shape, arch, numerics)
        if found is None:
            return f"not measured on {self.device or self.arch}"
        timing, origin, measured = found
        text = f"measured: {timing.us:.4g} us on {origin.device}, {origin.date[:10]}"
        text = text if measured.n == shape.n else f"{text}, for N = {measured.n}"
        if measured.padding_mode is not shape.padding_mode:
            return f"{text}, with a border of zeros"
        other = measured.padding_value != shape.padding_value
        return f"{text}, with a border of {measured.padding_value:.9g}" if other else text

    def seconds(self, shape: ConvShape, arch: Arch, numerics: Numerics = Numerics.FLOAT32) -> float | None:
        """The measured time of best(), for this batch in proportion to the measured one; None where there is none."""
        found = self._find(shape, arch, numerics)
        return None if found is None else found[0].us * 1e-6 * shape.n / found[2].n

    def _find(self, shape: ConvShape, arch: Arch, numerics: Numerics) -> tuple[Timing, Origin, ConvShape] | None:
        if str(arch) != self.arch:
            return None
        found = next(filter(None, (self._found.get((key, numerics)) for key in _keys(shape))), None)
        if found is None and shape.padding_mode is not Border.ZEROS:
            found = self._of_zeros(_key(shape), arch, numerics)
        if found is None and numerics is Numerics.IEEE:     # what the default found quickest may be of float32 units
            return self._find(shape, arch, Numerics.FLOAT32)
        return found

    def _of_zeros(self, layer: ConvShape, arch: Arch,
                  numerics: Numerics) -> tuple[Timing, Origin, ConvShape] | None:
        """The entry of the layer with a border of zeros, where its plan values are of use with the layer's own."""
        from warpconv.codegen.resolution import carries_over
        plain = replace(layer, padding_mode=Border.ZEROS, padding_value=0.0)
        found = next(filter(None, (self._found.get((key, numerics)) for key in _keys(plain))), None)
        if found is None or not carries_over(plain, layer, arch, found[0].algorithm, dict(found[0].values), numerics):
            return None
        return found


def _keys(shape: ConvShape) -> Iterator[ConvShape]:
    """What a layer's entry may be found by: its own batch, then others, the nearest first."""
    images, times = min(shape.n, ASSUMED_IMAGES), 1
    while times <= FARTHEST:
        yield _key(shape.with_batch(images * times))
        yield _key(shape.with_batch(max(1, images // times)))
        times *= 2


def _key(shape: ConvShape) -> ConvShape:
    """What an entry is found by: a batch that stands for those which share a kernel, and any value of a constant
    border, which is but a number in the text."""
    layer = shape.with_batch(shared_batch(shape))
    return layer if layer.padding_mode is not Border.CONSTANT else replace(layer, padding_value=1.0)


def table(ordinal: int | None) -> Table | None:
    """The table of a GPU: what is shipped and what its user measured, as far as this very model was measured.

    None for the CPU device, which executes what a GPU would run. A user's file that cannot be read is warned of once,
    and the shipped one serves. The file is read again when it changes.
    """
    if ordinal is None:
        return None
    from warpconv.runtime.devices.cuda import contexts
    path = user_file()
    return _table(contexts.name(ordinal), contexts.arch(ordinal), path, stamp_of(path))


def table_of_file(path: Path, arch: Arch | str) -> Table:
    """A file's timings for an architecture, whichever device of it was measured. Raises FileError."""
    return Table(files.read(path), arch)


def tuning_table(database: str | os.PathLike[str] | None = None, *, arch: Arch | str = DEFAULT_ARCH) -> Table:
    """Measured choices for ``select``, ``plan_layer``, ``explain`` and ``resolve`` to take as ``tuning=``.

    ``database``: a file that ``tune`` or ``warpconv tune`` wrote; None for the timings that come with warpconv and,
    over them, the user's own (WARPCONV_TUNE_DB). ``arch``: the architecture whose timings count, whichever device of it
    was measured. Returns the table.

    Raises FileError where a file cannot be read, ArgumentError for an unknown architecture.
    """
    arch = Arch.parse(arch)
    if database is not None:
        return table_of_file(Path(database), arch)
    found = Database()
    found.take(shipped())
    if paths.exists(path := user_file()):
        found.take(files.read(path))
    return Table(found, arch)


@functools.lru_cache(maxsize=8)
def _table(device: str, arch: str, path: Path, stamp: Stamp | None) -> Table:
    database = Database()
    database.take(shipped())
    if stamp is not None:
        try:
            database.take(files.read(path))
        except FileError as error:
            warned.warn(f"{error}; the rules choose until then")
    return Table(database, arch, device)


@functools.lru_cache(maxsize=1)
def shipped() -> Database:
    """What comes with warpconv: one file for each device that was measured. Not to be changed by callers."""
    database = Database()
    for item in sorted(resources.files(__package__).iterdir(), key=lambda item: item.name):
        if item.name.endswith(".json"):
            database.take(files.parse(item.read_text(encoding="utf-8")))
    return database
