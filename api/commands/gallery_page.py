"""The gallery: which filters and borders it shows, its pictures, and its text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from warpconv.codegen.border import NAMES, Border
from warpconv.filters import names, weights
from warpconv.images import Picture, pillow, preview, read_picture, to_image, write_image

from .files import InputFileError, write_text
from .filter_jobs import result_name
from .filter_run import Filtering, filter_picture, parse_border

WIDTH = 280             # of the photographs that are filtered, and shown
SMALL, ENLARGED = 84, 3     # the width of those that show borders, and how many times larger they are shown
SHIFT = 15              # pixels that the borders' pictures are moved by, which brings the border into sight
QUALITY = 82
COLUMNS = 3
FLAT = 127.5            # constant border of the gallery


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A picture of the gallery: kernels and the options of ``filter`` for them."""

    kernels: tuple[str, ...]
    scale: float = 1.0
    offset: float = 0.0
    absolute: bool = False

    @property
    def options(self) -> str:
        """As the command line has them."""
        words = [f"--kernel {kernel}" for kernel in self.kernels]
        words += ["--combine magnitude"] if len(self.kernels) > 1 else []
        words += ["--abs"] if self.absolute else []
        words += [f"--{name} {value:g}" for name, value, usual in (("scale", self.scale, 1), ("offset", self.offset, 0))
                  if value != usual]
        return " ".join(words)

    @property
    def name(self) -> str:
        """Of its file."""
        return "-".join(map(result_name, self.kernels)) + ("-abs" if self.absolute else "")


def _one(kernel: str, **options: float | bool) -> Shown:
    return Shown(kernels=(kernel,), **options)


BLURS = (_one("box:5"), _one("gaussian:9,2"), _one("motion:15,45"))
SHARPENED = (_one("sharpen"), _one("unsharp:5,2"), _one("emboss:3"))
EDGES = (
    _one("sobel-x", scale=0.25, offset=128), _one("sobel-y", scale=0.25, offset=128),
    Shown(kernels=("sobel-x", "sobel-y"), scale=0.5),
    _one("prewitt-x", scale=0.33, offset=128), _one("prewitt-y", scale=0.33, offset=128),
    Shown(kernels=("prewitt-x", "prewitt-y"), scale=0.66),
    _one("scharr-x", scale=0.06, offset=128), _one("scharr-y", scale=0.06, offset=128),
    Shown(kernels=("scharr-x", "scharr-y"), scale=0.12),
    _one("laplace", absolute=True), _one("laplace-8", absolute=True, scale=0.5), _one("log:7,1.2", absolute=True))
SECTIONS = (("Blurs", BLURS), ("Sharpening and relief", SHARPENED), ("Edges", EDGES))
BORDERS = tuple(f"constant:{FLAT:g}" if mode is Border.CONSTANT else mode.value for mode in Border)


MADE_BY = "This page is made by"
Made = tuple[Path, Picture, dict[str, Any]]


def make_page(photos: Sequence[str], page: Path, folder: Path, device: str) -> list[Path]:
    """Write the page and its pictures; returns the pictures' files.

    Sections take the photographs in turn. All is computed, then the page is written, then the pictures that it shows.
    Raises as read_picture, specialize and write_whole; InputFileError, and nothing is written, where another page or a
    picture that the page does not show would be overwritten.
    """
    old = _old_page(page)
    pictures = [small(read_picture(photo, "PHOTO"), WIDTH) for photo in photos]
    lines = [*_head(photos, page)]
    made: list[Made] = []
    for number, (title, entries) in enumerate(SECTIONS):
        picture = pictures[number % len(pictures)]
        cells = [_cell(made, folder, f"{Path(photos[number % len(photos)]).stem}-small", picture, "the photograph")] \
            if number < len(pictures) else []
        for shown in entries:
            cells.append(_cell(made, folder, shown.name, apply(picture, shown, device), _told(shown)))
        lines += ["", f"## {title}", "", *_table(cells, COLUMNS + (len(cells) > len(entries)))]
    lines += ["", "## Borders", "", *_border_text()]
    tiny = small(read_picture(photos[-1], "PHOTO"), SMALL)
    cells = []
    for border in BORDERS:
        picture = _enlarged(apply(tiny, None, device, border))
        cells.append(_cell(made, folder, f"border-{border.partition(':')[0]}", picture, f"`--border {border}`"))
    lines += _table(cells)
    lines += ["", *_names_of_borders()]
    _check_pictures(made, old, photos)
    write_text(page, "\n".join(lines) + "\n")
    return [write_image(path, to_image(picture), quality=QUALITY, **options) for path, picture, options in made]


def _old_page(page: Path) -> str:
    """The page that is there, empty where none is. Raises InputFileError where it is none of gallery's."""
    if not os.path.lexists(page):
        return ""
    text = page.read_text(encoding="utf-8", errors="replace") if page.is_file() else ""
    if MADE_BY not in text:
        raise InputFileError("this file is no page that gallery made", argument="output", value=str(page),
                             hint="remove it, or name another")
    return text


def _check_pictures(made: Sequence[Made], old: str, photos: Sequence[str]) -> None:
    """Raises InputFileError where a picture would overwrite one that the page did not show, or a photograph."""
    for path, _, _ in made:
        if not os.path.lexists(path):
            continue
        shown = f"]({path.parent.name}/{path.name})" in old
        if not shown or any(os.path.exists(path) and os.path.samefile(path, photo) for photo in photos):
            raise InputFileError("this file would be overwritten, and is no picture of the page", argument="output",
                                 value=str(path), hint="move it away, or name another page")


def apply(picture: Picture, shown: Shown | None, device: str, border: str = "reflect") -> Picture:
    """The filtered picture; without ``shown`` it is moved by SHIFT pixels right and down."""
    mode, value = parse_border(border)
    if shown is None:
        how = Filtering(kernels={"shift": shift()}, border=mode, border_value=value, device=device)
    else:
        how = Filtering(kernels={kernel: weights(kernel) for kernel in shown.kernels}, border=mode, border_value=value,
                        combine=len(shown.kernels) > 1, scale=shown.scale, offset=shown.offset,
                        absolute=shown.absolute, device=device)
    return filter_picture(picture, how)[0].picture


def shift() -> np.ndarray:
    """The filter whose only weight is in its upper left corner."""
    made = np.zeros((2 * SHIFT + 1, 2 * SHIFT + 1), np.float32)
    made[0, 0] = 1
    return made


def small(picture: Picture, width: int) -> Picture:
    """A picture of 8 bits and that width; one that is narrower stays as it is."""
    image = to_image(replace(preview(picture), alpha=None))
    if image.width > width:
        size = width, max(1, round(image.height * width / image.width))
        image = image.resize(size, pillow().Resampling.LANCZOS)
    values = np.asarray(image.convert("RGB"))
    return Picture(planes=np.ascontiguousarray(values.transpose(2, 0, 1)), about=picture.about)


def _enlarged(picture: Picture) -> Picture:
    return replace(picture, planes=picture.planes.repeat(ENLARGED, axis=1).repeat(ENLARGED, axis=2))


def _cell(made: list[Made], folder: Path, name: str, picture: Picture, text: str) -> tuple[str, str]:
    """Adds a picture to ``made``; its link and the text below it."""
    options = {key: picture.about[key] for key in ("exif", "icc_profile") if key in picture.about}
    made.append((folder / f"{name}.jpg", picture, options))
    return f"![{name}]({folder.name}/{name}.jpg)", text


def _told(shown: Shown) -> str:
    purposes = {form.partition(":")[0]: purpose for form, purpose in names()}
    told = "magnitude of both" if len(shown.kernels) > 1 else purposes[shown.kernels[0].partition(":")[0]]
    return f"`{shown.options}`<br>{told}"


def _table(cells: Sequence[tuple[str, str]], columns: int = COLUMNS) -> list[str]:
    """Pictures in rows of ``columns``, what they are below each."""
    lines = []
    for first in range(0, len(cells), columns):
        row = [*cells[first:first + columns], *[("", "")] * columns][:columns]
        lines.append(f"| {' | '.join(picture for picture, _ in row)} |")
        if first == 0:
            lines.append(f"| {' | '.join(['---'] * columns)} |")
        lines.append(f"| {' | '.join(text for _, text in row)} |")
    return lines


def _head(photos: Sequence[str], page: Path) -> list[str]:
    lines = ["# Gallery", "", "What `warpconv filter` makes of photographs: pictures as they come out of the kernels, "
             "by the options below each.", MADE_BY, "",
             f"    warpconv gallery {' '.join(photos)} -o {page}", "", "Photographs, here made small and filtered:", ""]
    return lines + [f"- `{Path(photo).name}` {credit(photo)}" for photo in photos]


def credit(photo: str) -> str:
    """Author and licence as the picture's tags tell them."""
    with pillow().open(photo) as image:
        tags = image.getexif()
    told = [str(tags[tag]).strip() for tag in (0x013B, 0x8298) if tags.get(tag)]
    return "by " + ", ".join(told) if told else "(no author is named in its tags)"


def _border_text() -> list[str]:
    return [f"A filter of {2 * SHIFT + 1} x {2 * SHIFT + 1} with one weight, in its corner, moves the picture by "
            f"{SHIFT} pixels to", "the right and down: above and to the left is what the border has there. Without "
            "`--border` it is `reflect`.", "",
            f"    import numpy; w = numpy.zeros(({2 * SHIFT + 1}, {2 * SHIFT + 1})); w[0, 0] = 1; "
            "numpy.save(\"shift.npy\", w)",
            "    warpconv filter photo.jpg shifted.jpg --kernel shift.npy --border symmetric", ""]


def _names_of_borders() -> list[str]:
    """What other libraries call each border."""
    lines = [f"| ours (and torch's) | {' | '.join(library for library in NAMES if library != 'torch')} |",
             f"| {' | '.join(['---'] * len(NAMES))} |"]
    for mode in Border:
        if mode is Border.ZEROS:
            continue
        told = [", ".join(f"`{name}`" for name, is_mode in known.items() if is_mode is mode) or "-"
                for library, known in NAMES.items() if library != "torch"]
        lines.append(f"| `{mode.value}` | {' | '.join(told)} |")
    return ["The same borders under other libraries' names, which `--border` takes too, as in `--border scipy:mirror`:",
            "", *lines]
