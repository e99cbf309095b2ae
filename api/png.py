"""PNG of 16-bit colours, through imagecodecs: Pillow reads their 16 bits as 8, and writes none."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from warpconv.codegen.errors import ArgumentError, ToolNotFound

from .commands.files import InputFileError
from .images import PACKED, Picture, joined, split, upright

_HEADER = 8 + 25            # bytes of the signature and of the first chunk, which others follow
_INCH = 0.0254              # metres
_EXIF = b"Exif\0\0"         # before the block in JPEG, not here


def imagecodecs() -> Any:
    """The package. Raises ToolNotFound where it is not installed."""
    try:
        import imagecodecs as module
    except ImportError as error:
        raise ToolNotFound("PNG of 16-bit colours needs imagecodecs", argument="package", value="imagecodecs",
                           hint='pip install "warpconv[image]", or use a 16-bit .tif') from error
    return module


def read(path: str, about: dict[str, Any], orientation: int, argument: str) -> Picture:
    """A PNG of 16 bits, gray or RGB, perhaps with alpha; ``about`` it and its EXIF ``orientation`` by Pillow.

    Raises InputFileError where it cannot be read, ArgumentError for another kind of image, ToolNotFound.
    """
    module = imagecodecs()
    try:
        values = module.png_decode(Path(path).read_bytes())
    except MemoryError:
        raise
    except Exception as error:      # OSError, imagecodecs' own
        raise InputFileError(f"this image cannot be read: {error}", argument=argument, value=path) from error
    channels = values.shape[2] if values.ndim == 3 else 1
    if values.dtype != np.uint16 or channels > 4:
        raise ArgumentError(f"this PNG is not served: {values.dtype} of {channels} channels", argument=argument,
                            value=path, hint="gray or RGB, perhaps with alpha, of 8 or 16 bits")
    return split(np.ascontiguousarray(upright(values, orientation)), channels in (2, 4), about)


def write(path: Path, picture: Picture) -> None:
    """Write a picture of 16 bits with what is known about it. Raises ToolNotFound, and OSError as writing does."""
    packed = bytes(imagecodecs().png_encode(joined(picture), level=PACKED))
    path.write_bytes(packed[:_HEADER] + b"".join(_chunks(picture.about)) + packed[_HEADER:])


def _chunks(about: dict[str, Any]) -> list[bytes]:
    made = []
    if "icc_profile" in about:
        made.append(_chunk(b"iCCP", b"ICC Profile\0\0" + zlib.compress(about["icc_profile"])))
    if "dpi" in about:
        made.append(_chunk(b"pHYs", struct.pack(">IIB", *(round(dots / _INCH) for dots in about["dpi"]), 1)))
    if "exif" in about:
        made.append(_chunk(b"eXIf", about["exif"].removeprefix(_EXIF)))
    return made


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
