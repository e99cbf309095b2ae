"""The batch that a layer's kernel is chosen for."""

from __future__ import annotations

import math

from .dtypes import Layout
from .shape import ConvShape

ASSUMED_IMAGES = 64         # of a layer with channels
FEW_IMAGES = (1, 4)          # of a depthwise layer: choices besides, up to four times as many
SOME_IMAGES = 16             # of one: another choice of lines, up to four times as many
ASSUMED_PIXELS = 256 * 256  # of single planes together, at least
UNKNOWN_PIXELS = 32 * 28 * 28   # of a batch with channels whose sizes are not known


def assumed_batch(shape: ConvShape) -> int:
    """The images that a layer's choice is made for: a plane comes alone if it is large, channels come in a batch.

    Layers whose choice knows the batch (``batch_matters``) have their own, down to a power of two and up to the one
    that is assumed for others: one image leaves most of a large GPU idle where its tiles are made for 64.
    """
    if shape.c == shape.k == 1:
        return max(1, ASSUMED_PIXELS // (math.prod(shape.image)))
    if is_lanes_of_channels(shape):
        images = class_of_lanes(shape)
        return images if images in FEW_IMAGES else ASSUMED_IMAGES
    return _class_of(shape.n) if batch_matters(shape) else ASSUMED_IMAGES


def is_lanes_of_channels(shape: ConvShape) -> bool:
    """Depthwise, in floating point, in NHWC: chosen for one image, a few, some, or as many as are assumed of others."""
    planes = shape.h > 1 < shape.w and shape.d is None          # neither sequences nor volumes
    return planes and shape.channels == 1 < shape.c and shape.layout is Layout.NHWC and shape.dtype.is_float


def is_volume_of_lanes(shape: ConvShape) -> bool:
    """The same of volumes, whose tiles are chosen for a power of two of them."""
    return (shape.d is not None and shape.channels == 1 < shape.c and shape.layout is Layout.NHWC
            and shape.dtype.is_float)


def summed_batch(shape: ConvShape) -> int:
    """The images that shares of a filter's gradient are counted for: depthwise layers of few images in NHWC have as
    many as others, since a share is a block (H200, 2026-11-27: 192 channels, 28^2, 3x3, one image 7.7 us with 112
    shares, 16.4 with one; eight images 9.5, 21.1 with 7)."""
    return ASSUMED_IMAGES if is_lanes_of_channels(shape) else assumed_batch(shape)


def class_of_lanes(shape: ConvShape) -> int:
    """The least images of those whose choice a layer of ``is_lanes_of_channels`` shares."""
    return next((n for n in (*FEW_IMAGES, SOME_IMAGES) if shape.n < 4 * n), ASSUMED_IMAGES)


def _class_of(images: int) -> int:
    return min(ASSUMED_IMAGES, 1 << images.bit_length() - 1)


def batch_matters(shape: ConvShape) -> bool:
    """Whether a layer's choice knows its batch: floating-point layers with several channels a group, and depthwise ones
    in NHWC, images and volumes."""
    return shape.channels > 1 and shape.dtype.is_float or is_lanes_of_channels(shape) or is_volume_of_lanes(shape)


def shared_batch(shape: ConvShape) -> int:
    """The batch that stands for all with which a layer shares its kernel: one where the choice does not know it."""
    if is_lanes_of_channels(shape):
        return class_of_lanes(shape)
    return assumed_batch(shape) if batch_matters(shape) else 1
