"""What ``filter`` does with an image larger than memory: zarr and TIFF, chunk by chunk, through Dask."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from warpconv.codegen.errors import ArgumentError, FileError

from .device import choose_device, note_device
from .files import InputFileError
from .output import console, echo_record, printable, say, seconds_text, size_text

if TYPE_CHECKING:
    import numpy as np

LARGE = 2**30       # bytes of pixels from which a TIFF is filtered in chunks


def large_options(command: Callable) -> Callable:
    """``--memory``, ``--workers``, ``--scheduler``, ``--axes``."""
    for option in (
            click.option("--axes", metavar="ROWS,COLUMNS", default=None,
                         help="Of a zarr array, counted from 0 or from the last, -1; without it those named y and x, "
                              "else the last two."),
            click.option("--scheduler", metavar="ADDRESS", default=None,
                         help="A Dask cluster's, as tcp://host:8786, for zarr and large TIFF."),
            click.option("--workers", type=click.IntRange(0), metavar="N", default=0,
                         help="Processes for zarr and large TIFF; 0: threads of this one."),
            click.option("--memory", metavar="2G", default=None,
                         help="What the chunks of zarr and TIFF may take together; a TIFF is filtered in chunks then, "
                              "of whatever size.")):
        command = option(command)
    return command


def is_large(photos: tuple[str, ...], output: str, given: dict[str, Any]) -> bool:
    """Whether the images are filtered in chunks: zarr, or a TIFF that is large or whose --memory is told.

    Raises ArgumentError for options of chunks with other pictures.
    """
    from warpconv.runtime.scale.sources import is_tiff, is_zarr
    told = next((f"--{name}" for name, value in given.items() if value), None)
    if any(is_zarr(name) for name in (*photos, output)):
        large = True
    else:
        large = len(photos) == 1 and is_tiff(photos[0]) and is_tiff(output) and (
            told is not None or _pixel_bytes(photos[0]) >= LARGE)
    if large and len(photos) > 1:
        raise ArgumentError("images in chunks are filtered one by one", argument="PHOTO", value=", ".join(photos),
                            hint="a command for each")
    if not large and told is not None:
        raise ArgumentError("pictures are filtered whole", argument=told, value=given[told.removeprefix("--")],
                            hint="zarr and TIFF are filtered in chunks")
    return large


def filter_large(photo: str, output: str, kernels: dict[str, np.ndarray], unserved: dict[str, Any], *, border: str,
                 dtype: str, scale: float, offset: float, absolute: bool, algorithm: str, device: str,
                 memory: str | None, workers: int, scheduler: str | None, axes: str | None, as_json: bool) -> None:
    """Filter one image in chunks and report. Raises ArgumentError for options that need the whole picture."""
    from warpconv.records.runs import FilteredInChunksRecord
    from warpconv.runtime.scale.files import FileFilter, filter_file

    from .filter_run import parse_border
    _check_files(photo, output)
    for name, value in unserved.items():
        if value:
            raise ArgumentError("this needs the whole picture in memory", argument=f"--{name}", value=value,
                                hint="leave it out for images in chunks")
    if len(kernels) > 1:
        raise ArgumentError("images in chunks take one filter at a time", argument="--kernel",
                            value=", ".join(kernels), hint="a command for each")
    (name, taps), = kernels.items()
    mode, value = parse_border(border)
    place = device
    if scheduler is None:
        from .filter import smallest_layer
        found, reason = choose_device(device, smallest_layer())
        place = found if found == "cpu" or ":" in device else "cuda"        # all GPUs in turn
        if not as_json:
            note_device(reason)
    with _progress(as_json) as advance:
        done = filter_file(FileFilter(
            input=photo, output=output, taps=_scaled(taps, scale, absolute), border=mode, border_value=value,
            steps=_steps(scale, offset, absolute), dtype=None if dtype == "pixel" else dtype, axes=_axes(axes),
            device=place, algorithm=algorithm, memory=memory or "2G", workers=workers, scheduler=scheduler), advance)
    record = FilteredInChunksRecord(
        image=photo, output=output, kernel=name, border=border, device=place, shape=done.shape, dtype=done.dtype,
        stored_as=done.stored_as, chunk=done.chunk, chunks=done.chunks, resumed=done.resumed, seconds=done.seconds)
    if as_json:
        echo_record(record)
        return
    import numpy
    again = f", {done.resumed} of them by a run before" if done.resumed else ""
    size = math.prod(done.shape) * numpy.dtype(done.dtype).itemsize
    say(f"{'x'.join(map(str, done.shape))} {done.dtype} ({size_text(size)}) to {done.stored_as}, chunks: {done.chunks} "
        f"of {'x'.join(map(str, done.chunk))}{again}\non {place}: {seconds_text(done.seconds)}, written to "
        f"{printable(output, lines=False)}")


def _check_files(photo: str, output: str) -> None:
    """Raises InputFileError for files that cannot be read or written at all."""
    from warpconv.runtime.scale.outputs import check_output
    from warpconv.runtime.scale.sources import Source
    try:
        Source(photo, "PHOTO").close()
        check_output(output, photo, "OUTPUT")
    except FileError as error:
        raise InputFileError(error.message, argument=error.argument, value=error.value, hint=error.hint) from error


def _scaled(taps: np.ndarray, scale: float, absolute: bool) -> np.ndarray:
    import numpy
    made = taps.astype("float64") * (abs(scale) if absolute else scale)
    if not (abs(made) <= numpy.finfo("float32").max).all():
        raise ArgumentError("the filter's weights overflow float32", argument="--scale", value=scale,
                            hint="a smaller number")
    return made


def _steps(scale: float, offset: float, absolute: bool) -> tuple[str, ...]:
    """--abs and --offset as steps of an epilogue; the sign of --scale goes with the absolute value."""
    steps = ("expr(abs(v))" if scale >= 0 else "expr(-abs(v))",) if absolute else ()
    return (*steps, f"expr(v + {float(offset)!r})") if offset else steps


def _axes(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    try:
        rows, columns = (int(word) for word in text.split(","))
    except ValueError:
        raise ArgumentError("the axes are two whole numbers", argument="--axes", value=text,
                            hint="rows, columns, as --axes=-2,-1") from None
    return rows, columns


def _pixel_bytes(path: str) -> int:
    """Bytes of a TIFF's pixels, by its header; 0 where it cannot be read, which is said when it is opened."""
    if not os.path.isfile(path):
        return 0
    with contextlib.suppress(Exception):
        import tifffile
        with tifffile.TiffFile(path) as file:
            return int(sum(series.nbytes for series in file.series))
    return 0


@contextlib.contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on the terminal, of chunks."""
    out = console(stderr=True)
    if quiet or not out.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    with Progress(BarColumn(), MofNCompleteColumn(), TextColumn("chunks"), TimeRemainingColumn(), console=out,
                  transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, count: bar.update(task, completed=done, total=count)
