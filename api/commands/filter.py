"""``warpconv filter``: a picture through an emitted kernel."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import click

from warpconv.codegen.errors import ArgumentError

from .device import choose_device, device_option, note_device
from .files import check_output, read_array
from .output import echo_record, json_option, seconds_text

if TYPE_CHECKING:
    import numpy as np

BORDERS = ("zero",)


@click.command("filter")
@click.argument("photo")
@click.argument("output")
@click.option("--kernel", required=True, metavar="NAME|FILE.npy",
              help="sobel-x, laplace, sharpen, box:5, gaussian:5,1.2, motion:9, ... (an unknown name lists all).")
@click.option("--border", metavar="zero", default="zero", show_default=True, help="What lies outside of the picture.")
@click.option("--scale", type=float, default=1.0, show_default=True, help="Multiply the result.")
@click.option("--offset", type=float, default=0.0, show_default=True, help="Add to the result, after --scale.")
@click.option("--abs", "absolute", is_flag=True, help="Take absolute values first.")
@click.option("--algorithm", metavar="A", default="auto", show_default=True, help="Name of an algorithm.")
@device_option
@json_option
def filter_picture(photo: str, output: str, kernel: str, border: str, scale: float, offset: float, absolute: bool,
                   algorithm: str, device: str, as_json: bool) -> None:
    """Filter the picture PHOTO and write OUTPUT, of the same size and pixel type.

    The filter is applied by cross-correlation to every colour plane (alpha is kept), the picture being surrounded by
    zeros; the result is rounded and clipped to the range of the pixels.
    """
    from warpconv.images import finish, read_picture, to_image, write_image
    if border not in BORDERS:
        raise ArgumentError("this border is not offered", argument="--border", value=border, hint=", ".join(BORDERS))
    for option, number in (("--scale", scale), ("--offset", offset)):
        if not math.isfinite(number):
            raise ArgumentError("this is no finite number", argument=option, value=number, hint="for instance 0.5")
    check_output(output, (photo, kernel if kernel.endswith(".npy") else None), "OUTPUT")
    weights = load_weights(kernel)
    picture = read_picture(photo, "PHOTO")
    values, ran, seconds, reason = filter_planes(picture.planes, weights, device=device, algorithm=algorithm)
    result, clipped = finish(picture, values, scale=scale, offset=offset, absolute=absolute)
    write_image(output, to_image(result), "OUTPUT")
    record = _record(photo, output, kernel, ran, seconds, clipped, len(picture.planes), picture.size)
    if as_json:
        echo_record(record)
        return
    note_device(reason)
    click.echo(f"{record.layer}\n{record.algorithm} on {record.device}: {seconds_text(seconds)}, written to {output}")
    if clipped > 0:
        click.echo(f"{100 * clipped:.3g} % of the values were clipped to 0 .. {picture.largest}; "
                   "--abs, --scale and --offset bring them into it")


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


def filter_planes(planes: np.ndarray, weights: np.ndarray, *, device: str = "auto",
                  algorithm: str = "auto") -> tuple[np.ndarray, Any, float, str | None]:
    """Planes (P, H, W) through a filter (R, S), or several filters (K, 1, R, S): result (P, H, W) or (P, K, H, W).

    Also the Kernel, the seconds of the call, and why device 'auto' is no GPU. Raises as warpconv.specialize.
    """
    from warpconv import ConvShape, specialize
    from warpconv.filters import layer_arrays
    x, w = layer_arrays(planes, weights)
    shape = ConvShape.of(x.shape, w.shape, padding="same")
    place, reason = choose_device(device, shape)
    made = specialize(shape, device=place, algorithm=algorithm)
    start = time.perf_counter()
    y = made(x, w)
    seconds = time.perf_counter() - start
    return (y[:, 0] if weights.ndim == 2 else y), made, seconds, reason


def _record(photo: str, output: str, name: str, ran: Any, seconds: float, clipped: float, planes: int,
            size: tuple[int, int]) -> Any:
    from warpconv.records import FilterRecord
    return FilterRecord(image=photo, output=output, kernel=name, algorithm=ran.spec.algorithm, device=ran.device,
                        layer=str(ran.spec.example_shape(n=planes, h=size[0], w=size[1])), seconds=seconds,
                        clipped=clipped)
