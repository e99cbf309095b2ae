"""The batch that a layer's kernel is chosen for."""

from __future__ import annotations

import math

from .dtypes import Layout
from .shape import ConvShape

ASSUMED_IMAGES = 64         # of a layer with channels
FEW_IMAGES = (1, 4)          # of a depthwise layer: choices besides, up to four times as many
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
        return next((n for n in FEW_IMAGES if shape.n < 4 * n), ASSUMED_IMAGES)
    return _class_of(shape.n) if batch_matters(shape) else ASSUMED_IMAGES


def is_lanes_of_channels(shape: ConvShape) -> bool:
    """Depthwise, of 16 bits, in NHWC: chosen for one image, for four, or for as many as are assumed of others."""
    planes = shape.h > 1 < shape.w and shape.d is None          # neither sequences nor volumes
    return planes and shape.channels == 1 < shape.c and shape.layout is Layout.NHWC and shape.dtype.is_half


def _class_of(images: int) -> int:
    return min(ASSUMED_IMAGES, 1 << images.bit_length() - 1)


def batch_matters(shape: ConvShape) -> bool:
    """Whether a layer's choice knows its batch: floating-point layers with several channels a group, and depthwise ones
    of 16 bits in NHWC."""
    return shape.channels > 1 and shape.dtype.is_float or is_lanes_of_channels(shape)


def shared_batch(shape: ConvShape) -> int:
    """The batch that stands for all with which a layer shares its kernel: one where the choice does not know it."""
    return assumed_batch(shape) if batch_matters(shape) else 1
