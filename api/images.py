"""Images as planes of their own pixels and back, through Pillow, and tifffile or imagecodecs where it loses bits."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from warpconv.codegen.errors import ArgumentError, ToolNotFound, WarpconvError
from warpconv.runtime import paths

from .commands.files import InputFileError, write_whole

QUALITY = 92        # of JPEG and WebP where nothing else is said
LOSSY = ("JPEG", "WEBP")
PACKED = 4          # of PNG: 40 % of the time of Pillow's 6, files 3 % larger (a photograph of 12 megapixels)

# How each of Pillow's modes is read; those left out are refused.
_READ_AS = {"1": "L", "L": "L", "LA": "LA", "P": "RGBA", "RGB": "RGB", "RGBA": "RGBA", "RGBX": "RGB", "CMYK": "RGB",
            "YCbCr": "RGB", "HSV": "RGB", "LAB": "RGB", "PA": "RGBA", "La": "LA", "RGBa": "RGBA",
            "I;16": "I;16", "I;16B": "I;16", "I;16L": "I;16", "I": "I;16", "F": "F"}
_OWN_COLOURS = ("1", "La", "RGBa", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "I;16", "I;16B", "I;16L", "I", "F")
_OTHER_PIXELS = {"1": "8-bit gray", "La": "gray with alpha", "RGBa": "RGB with alpha"}    # colours stay
_WITH_ALPHA = {"1": "LA", "L": "LA", "RGB": "RGBA"}       # where one colour is transparent
_BITS, _PHOTOMETRIC, _SAMPLE_FORMAT = 258, 262, 339     # tags of TIFF
_SIGNED = "warpconv filter --memory 2G filters signed elements as they are, from .tif to .tif"
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
UNTOLD = "it has a sample beside its colours whose meaning the file does not tell: that was left out"
_LARGEST = {"uint8": 255, "uint16": 65535}
# EXIF's tags that describe how the file stores its pixels, which another file does in its own way.
_STORAGE_TAGS = frozenset((*range(254, 263), 266, 273, 274, 277, 278, 279, 284, 317, *range(320, 326), 330, 338, 339,
                           347, 513, 514, *range(529, 533), 700, 33723, 34377, 34675))


@dataclass(frozen=True, kw_only=True)
class Picture:
    """``planes`` (1 or 3, H, W) of uint8, uint16 or float32 to filter, ``alpha`` (H, W) of the same to keep, and
    ``about``: what else the file tells (``icc_profile``, ``dpi``, ``exif`` as bytes), kept where the format can;
    ``converted``: in words, what was made of colours that are not filtered as they are."""

    planes: np.ndarray
    alpha: np.ndarray | None = None
    about: dict[str, Any] = field(default_factory=dict)
    converted: str | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.planes.shape[1], self.planes.shape[2]

    @property
    def largest(self) -> int | None:
        """The largest value of a pixel; None for float32, which has no range."""
        return _LARGEST.get(self.planes.dtype.name)

    def gray(self) -> np.ndarray:
        """Luminance (ITU-R BT.601), float32 of (H, W)."""
        if len(self.planes) == 1:
            return self.planes[0].astype(np.float32)
        return np.tensordot(np.array([0.299, 0.587, 0.114], np.float32), self.planes.astype(np.float32), axes=1)


def pillow() -> Any:
    """Pillow's Image module. Raises ToolNotFound where it is not installed."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ToolNotFound("images need Pillow", argument="package", value="pillow",
                           hint='pip install "warpconv[image]"') from error
    return Image


def suffixes() -> dict[str, str]:
    """The suffixes of files that Pillow reads, with their formats. Raises ToolNotFound without Pillow."""
    image_module = pillow()
    image_module.init()
    return {suffix: name for suffix, name in image_module.EXTENSION.items() if name in image_module.OPEN}


def read_picture(path: str | Path, argument: str = "image") -> Picture:
    """An image of any format that Pillow reads, upright: gray, RGB, of 8 or 16 bits; TIFF also of float32; alpha is
    kept apart.

    Raises InputFileError where it cannot be read, ArgumentError for a kind of pixel, or several images in one file,
    that are not served, ToolNotFound without Pillow, or without tifffile where the image needs it.
    """
    image_module = pillow()
    if paths.exists(path) and not paths.is_file(path):      # a pipe would keep us waiting for its other end
        raise InputFileError("this is no regular file", argument=argument, value=str(path), hint="name an image file")
    with _broken_files(path, argument), contextlib.ExitStack() as stack:
        file = stack.enter_context(open(path, "rb"))    # by its name Pillow maps it, and reads turned rows wrong
        is_tiff = file.read(4) in _TIFF
        file.seek(0)
        try:
            image = image_module.open(file)
        except image_module.UnidentifiedImageError:
            if not is_tiff:
                raise InputFileError("this image cannot be read: its format is not known here",
                                     argument=argument, value=str(path)) from None
            image = None
        if image is not None:
            with image:
                _check_single(image, str(path), argument)
                _check_samples(image, str(path), argument)
                if not _loses_bits(image):
                    return _read_with_pillow(image, str(path), argument)
                if image.format == "PNG":
                    from . import png
                    orientation = int(image.getexif().get(274, 1))      # which about is without
                    return png.read(str(path), _about(image, True), orientation, argument)
    if not is_tiff:
        raise ArgumentError("Pillow reads this image's 16 bits as 8", argument=argument, value=str(path),
                            hint="save it as a 16-bit .png or .tif: they keep colours and alpha of 16 bits")
    from . import tiff
    return tiff.read(str(path), argument)


@contextlib.contextmanager
def _broken_files(path: str | Path, argument: str) -> Any:
    """Whatever a decoder raises over a broken file is an InputFileError."""
    try:
        yield
    except (WarpconvError, MemoryError):
        raise
    except Exception as error:      # OSError, SyntaxError, ValueError, struct.error, zlib.error, ...
        raise InputFileError(f"this image cannot be read: {getattr(error, 'strerror', None) or error}",
                             argument=argument, value=str(path)) from error


def _check_single(image: Any, path: str, argument: str) -> None:
    """Raises ArgumentError for several images in one file."""
    count = getattr(image, "n_frames", 1)
    if count > 1 and image.format != "MPO":      # a camera's MPO: the photo, then previews
        what = "this file holds" if image.format == "TIFF" else f"this {image.format} is animated: it holds"
        raise ArgumentError(f"{what} {count} images", argument=argument, value=path,
                            hint="save each as a file of its own")


def _check_samples(image: Any, path: str, argument: str) -> None:
    """Raises ArgumentError for signed bytes, which Pillow takes as unsigned ones."""
    if image.format == "TIFF" and image.mode == "L" and 2 in _samples(image, _SAMPLE_FORMAT):
        raise ArgumentError("the image has signed bytes", argument=argument, value=path, hint=_SIGNED)


def _samples(image: Any, tag: int) -> tuple[int, ...]:
    """What a TIFF says of each of its samples."""
    found = getattr(image, "tag_v2", {}).get(tag, ())
    return tuple(map(int, found if isinstance(found, tuple) else (found,)))


def _loses_bits(image: Any) -> bool:
    """Whether Pillow would take 16-bit colours as 8 bits: the tile's raw mode tells, the image's mode does not; nor
    does either of a TIFF with a plane for each colour, whose tags do."""
    if image.mode.startswith("I") or not image.tile:
        return False
    bits = _samples(image, _BITS)
    if len(bits) > 1 and max(bits) > 8 and image.mode != "F":
        return True
    given = image.tile[0][3]
    raw = given[0] if isinstance(given, tuple) and given else given
    return isinstance(raw, str) and ";16" in raw


def _read_with_pillow(image: Any, path: str, argument: str) -> Picture:
    from PIL import ImageOps
    mode = _READ_AS.get(image.mode)
    if image.mode == "P" and "transparency" not in image.info:
        mode = "RGB"
    if image.mode in _WITH_ALPHA and "transparency" in image.info:      # of one colour
        mode = _WITH_ALPHA[image.mode]
    if mode is None:
        raise ArgumentError(f"images of Pillow's mode {image.mode} are not served", argument=argument, value=path,
                            hint="gray or colour of 8 or 16 bits, or float32")
    own_colours = image.mode in _OWN_COLOURS
    told = None
    if not own_colours:
        told = f"its colours are {image.mode}: it was filtered as RGB and is written so, without its colour profile"
    elif len(_samples(image, _BITS)) > len(mode) or image.mode == "RGBX":
        told = UNTOLD
    elif image.mode in _OTHER_PIXELS:
        told = f"its pixels are of mode {image.mode}: it was filtered as {_OTHER_PIXELS[image.mode]} and is written so"
    # 32 bits without a sign, too, are numbers with one to Pillow
    unsigned = image.format == "TIFF" and set(_samples(image, _SAMPLE_FORMAT)) <= {1}
    white_is_0 = image.format == "TIFF" and _samples(image, _PHOTOMETRIC) == (0,)
    image = ImageOps.exif_transpose(image)
    about = _about(image, own_colours)
    if mode in ("I;16", "F"):
        values = np.asarray(image)
        least, most = (int(values.min()), int(values.max())) if mode == "I;16" and values.size else (0, 0)
        if least < 0 and not unsigned:
            raise ArgumentError("the image has values below 0", argument=argument, value=path, hint=_SIGNED)
        if least < 0 or most > 65535:
            raise ArgumentError("the image has values beyond 16 bits", argument=argument, value=path,
                                hint="save it as 16 bits, or as float32 .tif")
        if white_is_0 and mode == "F":
            raise ArgumentError("white is 0 in this image of float32, and black has no number", argument=argument,
                                value=path, hint="save it with black at 0 (photometric MinIsBlack)")
        if white_is_0:
            values = 65535 - values.astype(np.int32)
        return Picture(planes=values.astype(np.uint16 if mode == "I;16" else np.float32)[None], about=about)
    values = np.asarray(image.convert(mode) if image.mode != mode else image)
    return replace(split(values, mode.endswith("A"), about), converted=told)


def split(values: np.ndarray, has_alpha: bool, about: dict[str, Any]) -> Picture:
    """A picture of (H, W) or (H, W, channels), the last of which may be alpha."""
    values = values[:, :, None] if values.ndim == 2 else values
    alpha = np.ascontiguousarray(values[:, :, -1]) if has_alpha else None
    planes = values[:, :, :-1] if has_alpha else values
    return Picture(planes=np.ascontiguousarray(planes.transpose(2, 0, 1)), alpha=alpha, about=about)


def joined(picture: Picture) -> np.ndarray:
    """The pixels as files have them: (H, W) or (H, W, channels), alpha the last."""
    planes = picture.planes if picture.alpha is None else np.concatenate([picture.planes, picture.alpha[None]])
    return planes[0] if len(planes) == 1 else np.ascontiguousarray(planes.transpose(1, 2, 0))


# How the stored rows and columns are turned upright, by the tag Orientation (TIFF 6.0, page 36).
_UPRIGHT: dict[int, Any] = {
    1: lambda a: a, 2: lambda a: a[:, ::-1], 3: lambda a: a[::-1, ::-1], 4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1), 6: lambda a: a.swapaxes(0, 1)[:, ::-1],
    7: lambda a: a.swapaxes(0, 1)[::-1, ::-1], 8: lambda a: a.swapaxes(0, 1)[::-1]}


def upright(values: np.ndarray, orientation: int) -> np.ndarray:
    """Rows and columns (H, W, ...) as they are to be seen."""
    return _UPRIGHT.get(orientation, _UPRIGHT[1])(values)


def _about(image: Any, own_colours: bool) -> dict[str, Any]:
    """Resolution, colour profile (not that of colours that are converted) and EXIF, less what tells of storage."""
    about = {}
    if own_colours and image.info.get("icc_profile"):
        about["icc_profile"] = image.info["icc_profile"]
    if image.info.get("dpi"):
        about["dpi"] = tuple(map(float, image.info["dpi"]))
    with contextlib.suppress(Exception):        # a broken EXIF block is no reason to lose the picture
        exif = image.getexif()
        for tag in _STORAGE_TAGS & set(exif):
            del exif[tag]
        if len(exif):
            about["exif"] = exif.tobytes()
    return about


def finish(values: np.ndarray, dtype: np.dtype | type, *, scale: float = 1.0,
           offset: float = 0.0) -> tuple[np.ndarray, float]:
    """``values``, by ``scale`` and ``offset`` if they are floats, as pixels of uint8 or uint16, rounded to nearest even
    and clipped; and the fraction that was clipped. No number becomes 0."""
    largest = _LARGEST[np.dtype(dtype).name]
    if values.dtype.kind in "iu":
        beyond = int(np.count_nonzero(values.view(f"u{values.itemsize}") > largest))     # negative ones are large there
        return (np.clip(values, 0, largest) if beyond else values).astype(dtype), beyond / max(1, values.size)
    made = np.multiply(values, np.float32(scale))       # then in place: new arrays of this size cost page faults
    if offset != 0:
        made += np.float32(offset)
    np.rint(made, out=made)
    beyond = int(np.count_nonzero(made < 0)) + int(np.count_nonzero(made > largest))
    np.nan_to_num(made, copy=False)
    return np.clip(made, 0, largest, out=made).astype(dtype), beyond / max(1, made.size)


def preview(picture: Picture, like: Picture | None = None) -> Picture:
    """A picture of 8 bits to be looked at; float32 is spread over the range of ``like`` (default: its own)."""
    if picture.planes.dtype == np.uint8:
        return picture
    planes = picture.planes
    if planes.dtype == np.uint16:
        alpha = None if picture.alpha is None else (picture.alpha >> 8).astype(np.uint8)
        return replace(picture, planes=(planes >> 8).astype(np.uint8), alpha=alpha)
    of = like or picture
    finite = of.planes[np.isfinite(of.planes)] if of.largest is None else np.array([0, of.largest])
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    shown, _ = finish(planes - np.float32(low), np.uint8, scale=255 / (high - low or 1.0))
    return Picture(planes=shown, about=picture.about)


def to_image(picture: Picture) -> Any:
    """A Pillow image of the picture's own kind. Raises ArgumentError for 16-bit or float32 colours and alpha, which
    Pillow does not have."""
    image_module = pillow()
    planes = [*picture.planes] + ([] if picture.alpha is None else [picture.alpha])
    if picture.planes.dtype != np.uint8 and len(planes) > 1:
        raise ArgumentError(f"Pillow has no images of {picture.planes.dtype} in {len(planes)} channels",
                            argument="picture", hint="write a .tif")
    images = [image_module.fromarray(np.ascontiguousarray(plane)) for plane in planes]
    if len(images) == 1:
        return images[0]
    return image_module.merge({2: "LA", 3: "RGB", 4: "RGBA"}[len(images)], images)


def format_of(path: str | Path, argument: str = "output") -> str:
    """Pillow's name of the format that a file of this name is written in. Raises ArgumentError where there is none."""
    image_module = pillow()
    image_module.init()
    suffix = Path(path).suffix.lower()
    if image_module.EXTENSION.get(suffix) not in image_module.SAVE:
        raise ArgumentError("the format cannot be told from the name", argument=argument, value=str(path),
                            hint="end it in .png, .jpg, .tif or the like")
    return image_module.EXTENSION[suffix]


def write_picture(path: str | Path, picture: Picture, argument: str = "output", quality: int = QUALITY) -> Path:
    """Write a picture with what it tells about itself; the format follows the name's suffix, ``quality`` is JPEG's and
    WebP's.

    Raises ArgumentError for a suffix or a kind of picture that the format does not take, and as write_whole.
    """
    form = format_of(path, argument)
    wide = picture.planes.dtype != np.uint8
    several = len(picture.planes) > 1 or picture.alpha is not None
    if form == "TIFF" and wide and several:
        from . import tiff
        return write_whole(path, lambda aside: tiff.write(aside, picture), argument)
    if form == "PNG" and picture.planes.dtype == np.uint16 and several:
        from . import png
        png.imagecodecs()
        return write_whole(path, lambda aside: png.write(aside, picture), argument)
    if form not in ("TIFF", *(("PNG", "JPEG2000") if picture.largest and not several else ())) and wide:
        channels = len(picture.planes) + (picture.alpha is not None)
        raise ArgumentError(f"{form} does not hold {channels} channel{'s' if channels > 1 else ''} of "
                            f"{picture.planes.dtype} here", argument=argument, value=str(path), hint="write a .tif")
    return write_image(path, to_image(picture), argument, **_options(form, picture.about, quality))


def _options(form: str, about: dict[str, Any], quality: int) -> dict[str, Any]:
    """What of ``about`` Pillow writes into a file of this format, and how hard it packs."""
    kept = {"JPEG": ("icc_profile", "dpi", "exif"), "PNG": ("icc_profile", "dpi", "exif"),
            "WEBP": ("icc_profile", "exif"), "TIFF": ("icc_profile", "dpi")}.get(form, ())
    options = {name: about[name] for name in kept if name in about}
    if form in LOSSY:
        options["quality"] = quality
    if form == "PNG":
        options["compress_level"] = PACKED
    return options


def write_image(path: str | Path, image: Any, argument: str = "output", **options: Any) -> Path:
    """Write a Pillow image; the format follows the name's suffix.

    Raises ArgumentError for a suffix or a kind of image that the format does not take, and as write_whole.
    """
    form = format_of(path, argument)

    def write(aside: Path) -> None:
        try:
            image.save(aside, format=form, **options)
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
