"""Images as planes of float32 and back, through Pillow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from warpconv.codegen.errors import ArgumentError, ToolNotFound

from .commands.files import InputFileError, write_whole

# How each of Pillow's modes is read; those left out are refused.
_READ_AS = {"1": "L", "L": "L", "LA": "LA", "P": "RGBA", "RGB": "RGB", "RGBA": "RGBA", "RGBX": "RGB", "CMYK": "RGB",
            "YCbCr": "RGB", "HSV": "RGB", "LAB": "RGB", "PA": "RGBA", "La": "LA", "RGBa": "RGBA",
            "I;16": "I;16", "I;16B": "I;16", "I;16L": "I;16", "I": "I;16"}


@dataclass(frozen=True, kw_only=True)
class Picture:
    """``planes`` (1 or 3, H, W) to filter, ``alpha`` (H, W) to keep, and the largest value: 255 or 65535."""

    planes: np.ndarray
    alpha: np.ndarray | None
    largest: int

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.planes.shape[1], self.planes.shape[2]

    def gray(self) -> np.ndarray:
        """Luminance (ITU-R BT.601), (H, W)."""
        if len(self.planes) == 1:
            return self.planes[0]
        return np.tensordot(np.array([0.299, 0.587, 0.114], np.float32), self.planes, axes=1)


def pillow() -> Any:
    """Pillow's Image module. Raises ToolNotFound where it is not installed."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ToolNotFound("images need Pillow", argument="package", value="pillow",
                           hint='pip install "warpconv[image]"') from error
    return Image


def read_picture(path: str | Path, argument: str = "image") -> Picture:
    """An image of any format that Pillow reads: gray of 8 or 16 bits, RGB; alpha is kept apart.

    Raises InputFileError where it cannot be read, ArgumentError for a kind of pixel that is not served, ToolNotFound
    without Pillow.
    """
    image_module = pillow()
    from PIL import ImageOps
    try:
        with image_module.open(path) as image:
            image = ImageOps.exif_transpose(image)
            image.load()
            return _picture(image, str(path), argument)
    except (OSError, SyntaxError, image_module.DecompressionBombError) as error:
        if isinstance(error, InputFileError):
            raise
        raise InputFileError(f"this image cannot be read: {getattr(error, 'strerror', None) or error}",
                             argument=argument, value=str(path)) from error


def _picture(image: Any, path: str, argument: str) -> Picture:
    mode = _READ_AS.get(image.mode)
    if image.mode == "P" and "transparency" not in image.info:
        mode = "RGB"
    if mode is None:
        raise ArgumentError(f"images of Pillow's mode {image.mode} are not served", argument=argument, value=path,
                            hint="8-bit gray or colour, or 16-bit gray")
    if mode == "I;16":
        values = np.asarray(image)
        if values.size and not 0 <= int(values.min()) <= int(values.max()) <= 65535:
            raise ArgumentError("the image has values beyond 16 bits", argument=argument, value=path)
        return Picture(planes=values.astype(np.float32)[None], alpha=None, largest=65535)
    values = np.asarray(image.convert(mode) if image.mode != mode else image)
    values = values[:, :, None] if values.ndim == 2 else values
    alpha = values[:, :, -1] if mode.endswith("A") else None
    planes = values[:, :, :-1] if alpha is not None else values
    return Picture(planes=np.ascontiguousarray(planes.transpose(2, 0, 1), np.float32), alpha=alpha, largest=255)


def finish(picture: Picture, values: np.ndarray, *, scale: float = 1.0, offset: float = 0.0,
           absolute: bool = False) -> tuple[Picture, float]:
    """``values`` as the picture's new planes, rounded and clipped to its range; and the fraction that was clipped."""
    if absolute:
        values = np.abs(values)
    values = np.rint(values * np.float32(scale) + np.float32(offset))
    clipped = float(np.mean((values < 0) | (values > picture.largest)))
    return replace(picture, planes=np.clip(np.nan_to_num(values), 0, picture.largest).astype(np.float32)), clipped


def to_image(picture: Picture) -> Any:
    """A Pillow image of the picture's own kind."""
    image_module = pillow()
    if picture.largest > 255:
        return image_module.fromarray(picture.planes[0].astype(np.uint16))
    values = picture.planes.astype(np.uint8).transpose(1, 2, 0)
    if picture.alpha is not None:
        values = np.concatenate([values, picture.alpha[:, :, None]], axis=2)
    return image_module.fromarray(values[:, :, 0] if values.shape[2] == 1 else np.ascontiguousarray(values))


def write_image(path: str | Path, image: Any, argument: str = "output", **options: Any) -> Path:
    """Write a Pillow image; the format follows the name's suffix.

    Raises ArgumentError for a suffix or a kind of image that the format does not take, and as write_whole.
    """
    image_module = pillow()
    image_module.init()
    suffix = Path(path).suffix.lower()
    if suffix not in image_module.EXTENSION:
        raise ArgumentError("the format cannot be told from the name", argument=argument, value=str(path),
                            hint="end it in .png, .jpg, .tif or the like")

    def write(aside: Path) -> None:
        try:
            image.save(aside, format=image_module.EXTENSION[suffix], **options)
        except (KeyError, ValueError) as error:
            raise _refused(path, image, argument) from error
        except OSError as error:
            if error.errno is None:             # Pillow's "cannot write mode RGBA as JPEG"
                raise _refused(path, image, argument) from error
            raise

    return write_whole(path, write, argument)


def _refused(path: str | Path, image: Any, argument: str) -> ArgumentError:
    return ArgumentError(f"this format does not hold images of mode {image.mode}", argument=argument, value=str(path),
                         hint="write a .png or .tif")
