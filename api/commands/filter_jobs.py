"""Which pictures ``filter`` reads and where each result goes; everything that can be refused is, before any work."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpconv.codegen.errors import ArgumentError
from warpconv.images import format_of, suffixes
from warpconv.runtime import paths

from .files import InputFileError, check_output


@dataclass(frozen=True, kw_only=True)
class Job:
    """One picture and a file for each of its results."""

    photo: str
    outputs: tuple[Path, ...]


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """All pictures; the folder that the results go to, None where OUTPUT is a file's name."""

    jobs: tuple[Job, ...]
    folder: Path | None


def find_jobs(photos: Sequence[str], output: str, results: Sequence[str], form: str | None,
              further_inputs: Sequence[str] = (), recursive: bool = False) -> Jobs:
    """One Job per picture of PHOTOs, folders of them taken in order of their names; ``recursive``: with the folders in
    them, whose results go to folders of the same names.

    ``results`` names what is made of each picture; with one of them a file keeps its name, or has that of OUTPUT, with
    several NAME-RESULT is made. ``form`` is the suffix of the files in a folder, None to keep each picture's own.
    Raises ArgumentError or InputFileError for what is no picture, an output that is also an input, two of one name, or
    a name that tells no format.
    """
    if form is not None:
        _check_format(form)
    found = list(_pictures(photos, output, recursive))
    many = len(photos) > 1 or os.path.isdir(photos[0])
    folder = Path(output) if many or os.path.isdir(output) or output.endswith(("/", os.sep)) else None
    if form is not None and folder is None:
        raise ArgumentError("the format of one file follows its name", argument="--format", value=form,
                            hint=f"name it {Path(output).with_suffix('.' + form)}, or a folder")
    jobs = tuple(Job(photo=photo, outputs=tuple(
        _named(photo, output, None if folder is None else folder / below, result, len(results), form)
        for result in results)) for photo, below in found)
    _check(jobs, folder, (*(photo for photo, _ in found), *further_inputs))
    return Jobs(jobs=jobs, folder=folder)


def result_name(kernel: str) -> str:
    """What a filter adds to a file's name: 'gaussian:5,1.2' gives gaussian-5-1.2, a file's path its stem."""
    name = Path(kernel).stem if kernel.endswith(".npy") else kernel
    return re.sub(r"[^\w.+-]+", "-", name).strip("-") or "filter"


def _check_format(form: str) -> None:
    """Raises ArgumentError for what is no format's name: it becomes the end of file names."""
    known = {suffix.lstrip(".") for suffix in suffixes()}
    if form not in known:
        usual = [name for name in ("png", "jpg", "tif", "webp", "bmp") if name in known]
        raise ArgumentError("there is no such format", argument="--format", value=form,
                            hint=f"for instance {', '.join(usual)}")


def _pictures(photos: Sequence[str], output: str, recursive: bool) -> Iterator[tuple[str, str]]:
    """Each picture, and the folder that it lies in below the one that was named."""
    for photo in photos:
        if "\0" in photo:
            raise InputFileError("there is a NUL in the name", argument="PHOTO", value=photo)
        if not os.path.isdir(photo):
            yield photo, ""
            continue
        hint = "files that end in .jpg, .png, .tif or the like"
        found = list(_below(photo, "", os.path.realpath(output), set(suffixes()), recursive))
        if not found:
            raise InputFileError("there are no pictures in this folder", argument="PHOTO", value=photo,
                                 hint=hint if recursive else f"{hint}; --recursive searches the folders in it, too")
        yield from found


def _below(root: str, below: str, output: str, known: set[str], recursive: bool) -> Iterator[tuple[str, str]]:
    """The pictures of a folder, then those of the folders in it: neither hidden ones, nor links, nor the output's."""
    folder = os.path.join(root, below) if below else root
    try:
        entries = sorted((entry for entry in os.scandir(folder) if not entry.name.startswith(".")),
                         key=lambda entry: entry.name)
    except OSError as error:
        raise InputFileError(f"the folder cannot be read: {error.strerror}", argument="PHOTO",
                             value=folder) from error
    for entry in entries:
        if Path(entry.name).suffix.lower() in known and not paths.is_dir(entry.path):
            yield entry.path, below
    for entry in entries if recursive else ():
        if entry.is_dir(follow_symlinks=False) and os.path.realpath(entry.path) != output:
            yield from _below(root, os.path.join(below, entry.name), output, known, recursive)


def _named(photo: str, output: str, folder: Path | None, result: str, results: int, form: str | None) -> Path:
    source = Path(output) if folder is None else Path(photo)
    suffix = source.suffix if form is None else f".{form}"
    name = source.stem + (f"-{result}" if results > 1 else "") + suffix
    return source.with_name(name) if folder is None else folder / name


def _check(jobs: Sequence[Job], folder: Path | None, inputs: Sequence[str]) -> None:
    """Raises where an output cannot be written, is one of the inputs, or another output too."""
    taken: dict[str, str] = {}
    identities = {_identity(name) for name in inputs} - {None}
    for job in jobs:
        for path in job.outputs:
            other = taken.setdefault(os.path.realpath(path), job.photo)
            if other is not job.photo or len(set(job.outputs)) < len(job.outputs):
                raise ArgumentError("two results would have one name", argument="OUTPUT", value=str(path),
                                    hint=f"they are of {other} and {job.photo}: filter them into two folders"
                                    if other is not job.photo else "name each filter once")
            if _identity(path) in identities:
                raise InputFileError("this file is also an input", argument="OUTPUT", value=str(path),
                                     hint="name another folder" if folder else "name another file")
            if folder is None or paths.exists(path):
                check_output(path, (), "OUTPUT")
            format_of(path, "OUTPUT")


def _identity(path: str | Path) -> tuple[int, int] | None:
    """Which file a path leads to; None where there is none."""
    status = paths.status(path)
    return None if status is None else (status.st_dev, status.st_ino)
