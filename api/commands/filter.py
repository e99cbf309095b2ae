"""``warpconv filter``: pictures through emitted kernels."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warpconv.codegen.errors import ArgumentError, WarpconvError
from warpconv.runtime import paths

from .complete import complete_algorithm, complete_filter, complete_named_border
from .device import choose_device, device_option, note_device
from .files import check_output, output_folder, read_array
from .filter_large import filter_large, is_large, large_options
from .output import console, echo_record, json_option, printable, say, seconds_text
from .wording import worded

if TYPE_CHECKING:
    import numpy as np

    from warpconv.images import Picture
    from warpconv.records.runs import FailedRow, FilteredRow, FilterRecord

    from .filter_jobs import Job, Jobs
    from .filter_run import Filtered, Filtering

MAGNITUDE = "magnitude"
SHEET_COLUMNS = 4


@click.command("filter")
@click.argument("photos", nargs=-1, required=True, metavar="PHOTO...")
@click.argument("output")
@click.option("--kernel", "kernels", required=True, multiple=True, metavar="NAME|FILE.npy",
              shell_complete=complete_filter,
              help="sobel-x, laplace, sharpen, box:5, gaussian:5,1.2, motion:9, ... (an unknown name lists all). "
                   "Several are applied to each picture at once, each making a file NAME-KERNEL.")
@click.option("--combine", type=click.Choice([MAGNITUDE]), default=None,
              help="One picture of several kernels: the root of the sum of their squares, as for sobel-x and sobel-y.")
@click.option("--border", metavar="B", default="reflect", show_default=True, shell_complete=complete_named_border,
              help="What lies outside of the picture: zeros, constant:VALUE, replicate, reflect (edge not repeated), "
                   "symmetric (edge repeated), circular; or as a library calls it: scipy:mirror, opencv:REFLECT_101.")
@click.option("--dtype", type=click.Choice(["pixel", "float32"]), default="pixel", show_default=True,
              help="pixel: the picture's own 8 or 16 bits, rounded to nearest and clipped; float32: not rounded where "
                   "the output is a TIFF.")
@click.option("--scale", type=float, default=1.0, show_default=True, help="Multiply the result.")
@click.option("--offset", type=float, default=0.0, show_default=True, help="Add to the result, after --scale.")
@click.option("--abs", "absolute", is_flag=True, help="Take absolute values first.")
@click.option("--format", "form", metavar="png|jpg|tif|...", default=None,
              help="Format of the files in a folder OUTPUT; without it each picture's own.")
@click.option("--quality", type=click.IntRange(1, 100), metavar="1-100", default=None,
              help="Of JPEG and WebP that are written; 92 without it.")
@click.option("--recursive", "-r", is_flag=True,
              help="With the folders in a folder: their results go to folders of the same names.")
@click.option("--sheet", metavar="FILE", default=None,
              help="Also write a contact sheet: each picture before and after.")
@click.option("--algorithm", metavar="A", default="auto", show_default=True, shell_complete=complete_algorithm,
              help="Name of an algorithm.")
@large_options
@device_option
@json_option
def filter_pictures(photos: tuple[str, ...], output: str, kernels: tuple[str, ...], combine: str | None, border: str,
                    dtype: str, scale: float, offset: float, absolute: bool, form: str | None, quality: int | None,
                    recursive: bool, sheet: str | None, algorithm: str, memory: str | None, workers: int,
                    scheduler: str | None, axes: str | None, device: str, as_json: bool) -> None:
    """Filter pictures: PHOTO to the file OUTPUT; several, or all in a folder, to the folder OUTPUT, names kept.

    An image larger than memory is a zarr array or a TIFF, and so is its OUTPUT: it is filtered chunk by chunk, and
    a run that was stopped goes on where it was.

    The filter is applied by cross-correlation to every colour plane (alpha is kept); the result has the picture's size
    and type of pixel. A picture that cannot be filtered does not hold up the others; the exit code is then 1.
    """
    start = time.perf_counter()
    from warpconv.records.runs import FilterRecord

    from .filter_jobs import find_jobs, result_name
    from .filter_run import Filtering, parse_border
    for option, number in (("--scale", scale), ("--offset", offset)):
        if not abs(number) <= 3.4028234e38:         # float32's largest
            raise ArgumentError("this is no finite number of float32", argument=option, value=number,
                                hint="for instance 0.5")
    if combine is not None and len(kernels) < 2:
        raise ArgumentError("there is nothing to combine", argument="--combine", value=combine,
                            hint="give --kernel twice, as in --kernel sobel-x --kernel sobel-y")
    if len(set(kernels)) < len(kernels):
        raise ArgumentError("a kernel is named twice", argument="--kernel", value=", ".join(kernels),
                            hint="name each once")
    in_chunks = {"memory": memory, "workers": workers, "scheduler": scheduler, "axes": axes}
    if is_large(photos, output, in_chunks):
        filter_large(
            photos[0], output, {kernel: load_weights(kernel) for kernel in kernels},
            {"combine": combine, "format": form, "quality": quality, "recursive": recursive, "sheet": sheet},
            border=border, dtype=dtype, scale=scale, offset=offset, absolute=absolute, algorithm=algorithm,
            device=device, as_json=as_json, memory=memory, workers=workers, scheduler=scheduler, axes=axes)
        return
    mode, border_value = parse_border(border)
    files = [kernel for kernel in kernels if kernel.endswith(".npy")]
    results = [combine] if combine else [result_name(kernel) for kernel in kernels]
    jobs = find_jobs(photos, output, results, None if form is None else form.lstrip(".").lower(), files,
                     recursive)
    if quality is not None:
        _check_quality(quality, jobs)
    if sheet is not None:
        _check_sheet(sheet, jobs, files)
    bank = {kernel: load_weights(kernel) for kernel in kernels}
    place, reason = choose_device(device, smallest_layer())
    how = Filtering(kernels=bank, border=mode, border_value=border_value, combine=combine is not None,
                    as_float=dtype == "float32", scale=scale, offset=offset, absolute=absolute, algorithm=algorithm,
                    device=place)
    if not as_json:
        note_device(reason)
    with contextlib.nullcontext() if jobs.folder is None else output_folder(jobs.folder, "OUTPUT"):
        written, failed, rows = _filter_all(jobs, how, results, sheet is not None, quality, quiet=as_json)
        if sheet is not None and rows:
            _write_sheet(sheet, rows)
        record = FilterRecord(border=border, written=tuple(written), failed=tuple(failed),
                              sheet=sheet if rows else None, seconds=time.perf_counter() - start)
        echo_record(record) if as_json else _report(record, jobs)
        if failed:
            raise click.exceptions.Exit(1)


def load_weights(kernel: str) -> np.ndarray:
    """A named filter, or the one in a .npy file: float32 of (R, S).

    Raises ArgumentError for an unknown name or an array that is no filter, InputFileError for an unreadable file.
    """
    import numpy
    from warpconv.filters import LARGEST, weights
    if not kernel.endswith(".npy"):
        return weights(kernel)
    array = read_array(kernel, "--kernel")
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "fiu":
        raise ArgumentError("this array is no filter", argument="--kernel", value=f"{array.dtype} {array.shape}",
                            hint="numbers of shape (R, S)")
    if max(array.shape) > LARGEST:
        raise ArgumentError(f"this filter is larger than {LARGEST}x{LARGEST}", argument="--kernel",
                            value=array.shape, hint=f"at most {LARGEST} rows and columns")
    if not (abs(array) <= numpy.finfo("float32").max).all():        # also false where one is not a number
        raise ArgumentError("this filter has values that are not finite in float32", argument="--kernel", value=kernel)
    return array.astype("float32")


def smallest_layer() -> Any:
    """A layer for choose_device, before there is one."""
    from warpconv import ConvShape
    return ConvShape(c=1, h=1, w=1, k=1, r=1, s=1)


def _check_sheet(sheet: str, jobs: Jobs, files: list[str]) -> None:
    """Raises where the sheet cannot be written, is an input, or one of the outputs."""
    from warpconv.images import format_of
    if jobs.folder is None or paths.exists(jobs.folder) or Path(sheet).parent != jobs.folder:     # else it will be made
        check_output(sheet, (*(job.photo for job in jobs.jobs), *files), "--sheet")
    format_of(sheet, "--sheet")
    if os.path.realpath(sheet) in {os.path.realpath(path) for job in jobs.jobs for path in job.outputs}:
        raise ArgumentError("the sheet would have the name of a result", argument="--sheet", value=sheet,
                            hint="name another file")


def _check_quality(quality: int, jobs: Jobs) -> None:
    """Raises ArgumentError where no file has one."""
    from warpconv.images import LOSSY, format_of
    if not any(format_of(path) in LOSSY for job in jobs.jobs for path in job.outputs):
        raise ArgumentError("no file is written that has a quality", argument="--quality", value=quality,
                            hint="JPEG and WebP have one: --format jpg, or another name")


def _filter_all(jobs: Jobs, how: Filtering, results: list[str], with_sheet: bool, quality: int | None,
                quiet: bool) -> tuple[list[FilteredRow], list[FailedRow], list[Any]]:
    """Rows of what was written, of what failed, and of the sheet. An only picture's error is raised."""
    from warpconv.records.runs import FailedRow

    from .sheet import MOST_ROWS, wrapped
    written: list[FilteredRow] = []
    failed: list[FailedRow] = []
    rows: list[Any] = []
    for job in _with_progress(jobs.jobs, quiet):
        try:
            picture, made = _filter_one(job, how, quality)
        except (WarpconvError, MemoryError) as error:
            if len(jobs.jobs) == 1:
                raise
            failed.append(FailedRow(image=job.photo, reason=_why(error)))
            continue
        if picture.converted is not None:
            click.echo(f"warpconv: {printable(job.photo, lines=False)}: {picture.converted}", err=True)
        names = list(how.kernels) if not how.combine else ["+".join(how.kernels)]
        written += [_row(job.photo, path, name, one) for path, name, one in zip(job.outputs, names, made)]
        if with_sheet:
            rows += wrapped(_before_and_after(job.photo, picture, results, made), SHEET_COLUMNS)
    if len(rows) > MOST_ROWS:
        click.echo(f"warpconv: the contact sheet shows its first {MOST_ROWS} rows of {len(rows)}", err=True)
    return written, failed, rows[:MOST_ROWS]


def _why(error: WarpconvError | MemoryError) -> str:
    """In words; the picture's name, which stands before them, is not said twice."""
    if not isinstance(error, WarpconvError):
        return "not enough memory for this picture"
    told = worded(error, "filter")
    return "; ".join(filter(None, (told.message, told.hint))) if told.argument == "PHOTO" else str(told)


def _filter_one(job: Job, how: Filtering, quality: int | None) -> tuple[Picture, list[Filtered]]:
    """Read, filter and write one picture; nothing is written before all of its results are there."""
    from warpconv.images import QUALITY, format_of, read_picture, write_picture

    from .filter_run import filter_picture
    picture = read_picture(job.photo, "PHOTO")
    keep_float = how.as_float and all(format_of(path) == "TIFF" for path in job.outputs)
    made = filter_picture(picture, how, keep_float=keep_float)
    beside = contextlib.nullcontext() if paths.is_dir(job.outputs[0].parent) else output_folder(job.outputs[0].parent)
    with beside:        # a folder below the output's, which is there
        for path, one in zip(job.outputs, made):
            write_picture(path, one.picture, "OUTPUT", QUALITY if quality is None else quality)
    return picture, made


def _with_progress(jobs: tuple[Job, ...], quiet: bool) -> Iterator[Job]:
    """The jobs, with a bar on the terminal where there are several."""
    out = console(stderr=True)
    if quiet or len(jobs) < 2 or not out.is_terminal:
        yield from jobs
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Name(TextColumn):
        """The picture's name as it is: no markup in it is read."""

        def render(self, task: Any) -> Text:
            return Text(printable(task.description, lines=False), no_wrap=True, overflow="ellipsis")

    with Progress(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), Name(""), console=out,
                  transient=True) as bar:
        task = bar.add_task("", total=len(jobs))
        for job in jobs:
            bar.update(task, description=job.photo)
            yield job
            bar.advance(task)


def _before_and_after(photo: str, picture: Picture, results: list[str],
                      made: list[Filtered]) -> list[tuple[str, Any]]:
    """Captions and small images: many pictures shall not stay in memory whole."""
    from warpconv.images import preview, to_image

    from .sheet import thumbnail
    shown = [(printable(Path(photo).name, lines=False), preview(picture)), *((name, preview(one.picture, picture))
                                                     for name, one in zip(results, made))]
    return [(caption, thumbnail(to_image(image))) for caption, image in shown]


def _write_sheet(path: str, rows: list[Any]) -> None:
    from warpconv.images import QUALITY, format_of, write_image

    from .sheet import contact_sheet
    options = {"quality": QUALITY} if format_of(path) in ("JPEG", "WEBP") else {}
    write_image(path, contact_sheet(rows), "--sheet", **options)


def _row(photo: str, path: Any, name: str, one: Filtered) -> FilteredRow:
    from warpconv.records.runs import FilteredRow
    return FilteredRow(image=photo, output=str(path), kernel=name, layer=one.layer, algorithm=one.kernel.spec.algorithm,
                       device=one.kernel.device, seconds=one.seconds, clipped=one.clipped)


def _report(record: FilterRecord, jobs: Jobs) -> None:
    written, failed = record.written, record.failed
    if len(jobs.jobs) == 1:
        for row in written:
            say(f"{row.layer}\n{row.algorithm} on {row.device}: {seconds_text(row.seconds)}, "
                f"written to {printable(row.output, lines=False)}")
    else:
        say(f"{len(jobs.jobs) - len(failed)} of {len(jobs.jobs)} pictures filtered in "
            f"{seconds_text(record.seconds)}: {len(written)} files in {printable(str(jobs.folder), lines=False)}")
    worst = max(written, key=lambda row: row.clipped, default=None)
    if worst is not None and worst.clipped > 0:
        of = f" of {printable(worst.output, lines=False)}" if len(written) > 1 else ""
        say(f"{100 * worst.clipped:.3g} % of the values{of} were clipped to the pixels' range; --abs, --scale "
            "and --offset bring them into it, --dtype float32 keeps them in a .tif")
    if record.sheet is not None:
        say(f"contact sheet: {printable(record.sheet, lines=False)}")
    for row in failed:
        say(f"warpconv: {printable(row.image, lines=False)}: {row.reason}", err=True)
