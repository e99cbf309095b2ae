"""TIFF of 16-bit colours and of float32, through tifffile: Pillow has no such images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from warpconv.codegen.errors import ArgumentError, ToolNotFound

from .commands.files import InputFileError
from .images import UNTOLD, Picture, joined, split, upright

_PER_INCH = {1: 1.0, 2: 1.0, 3: 2.54}        # by the tag ResolutionUnit: none, inch, centimetre
_UNSPECIFIED, _PREMULTIPLIED = 0, 1          # ExtraSamples
_EXTRA = (_UNSPECIFIED, _PREMULTIPLIED, 2)
_GRAY, _RGB = 1, 2                           # PhotometricInterpretation


def tifffile() -> Any:
    """The package. Raises ToolNotFound where it is not installed."""
    try:
        import tifffile as module
    except ImportError as error:
        raise ToolNotFound("TIFF of 16-bit colours or of float32 needs tifffile", argument="package", value="tifffile",
                           hint='pip install "warpconv[image]"') from error
    return module


def read(path: str, argument: str) -> Picture:
    """A TIFF of one gray or RGB image, with or without alpha, of 8 or 16 bits or float32.

    Raises InputFileError where it cannot be read, ArgumentError for other kinds of image, ToolNotFound.
    """
    module = tifffile()
    try:
        with module.TiffFile(path) as file:
            pages, page = len(file.pages), file.pages[0]
            tags = {tag.code: tag.value for tag in page.tags}
            axes, kind, extra = page.axes, int(page.photometric), tuple(map(int, page.extrasamples))
            values = page.asarray() if pages == 1 else None
    except MemoryError:
        raise
    except Exception as error:      # what tifffile raises over a broken file is of many types
        hint = ('pip install "warpconv[image]" brings imagecodecs; or save it without compression'
                if "imagecodecs" in str(error) else None)
        raise InputFileError(f"this image cannot be read: {error}", argument=argument, value=path,
                             hint=hint) from error
    if values is None:
        raise ArgumentError(f"this file holds {pages} images", argument=argument, value=path,
                            hint="save each as a file of its own")
    values = np.moveaxis(values, 0, 2) if axes == "SYX" else values
    colours = 3 if kind == _RGB else 1
    channels = values.shape[2] if values.ndim == 3 else 1
    if kind not in (_GRAY, _RGB) or axes not in ("YX", "YXS", "SYX") or channels - colours != len(extra) \
            or len(extra) > 1 or not set(extra) <= set(_EXTRA) or values.dtype not in ("uint8", "uint16", "float32"):
        raise ArgumentError(f"this TIFF is not served: {values.dtype} of {channels} channels, photometric {kind}, "
                            f"extra samples {extra}", argument=argument, value=path,
                            hint="gray or RGB, perhaps with alpha, of 8 or 16 bits or float32")
    values = upright(values, int(tags.get(274, 1)))
    values = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("=")))
    if extra == (_UNSPECIFIED,):
        return replace(split(values[:, :, :colours], False, _about(tags)), converted=UNTOLD)
    return split(_divided(values) if extra == (_PREMULTIPLIED,) else values, bool(extra), _about(tags))


def _divided(values: np.ndarray) -> np.ndarray:
    """Colours that were multiplied by their alpha, the last channel, as they are by themselves."""
    whole = values.dtype.kind == "u"
    most = float(np.iinfo(values.dtype).max) if whole else 1.0
    alpha = values[..., -1:].astype(np.float64)
    made = np.divide(values[..., :-1] * most, alpha, out=np.zeros_like(values[..., :-1], np.float64), where=alpha > 0)
    made = np.rint(np.minimum(made, most)) if whole else made
    return np.concatenate([made.astype(values.dtype), values[..., -1:]], axis=-1)


def write(path: Path, picture: Picture) -> None:
    """Write a picture as TIFF, not packed. Raises ToolNotFound, and OSError as writing does."""
    options: dict[str, Any] = {"photometric": "rgb" if len(picture.planes) == 3 else "minisblack", "metadata": None}
    if picture.alpha is not None:
        options |= {"extrasamples": ["unassalpha"], "planarconfig": "contig"}
    if "icc_profile" in picture.about:
        options["iccprofile"] = picture.about["icc_profile"]
    if "dpi" in picture.about:
        options |= {"resolution": picture.about["dpi"], "resolutionunit": "INCH"}
    tifffile().imwrite(path, joined(picture), software=None, **options)


def _about(tags: dict[int, Any]) -> dict[str, Any]:
    about: dict[str, Any] = {}
    if tags.get(34675):
        about["icc_profile"] = bytes(tags[34675])
    if 282 in tags and 283 in tags and int(tags.get(296, 2)) != 1:
        per_inch = _PER_INCH.get(int(tags.get(296, 2)), 1.0)
        about["dpi"] = tuple(numerator / (denominator or 1) * per_inch
                             for numerator, denominator in (tags[282], tags[283]))
    return about
