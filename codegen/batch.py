"""The batch that a layer's kernel is chosen for."""

from __future__ import annotations

from .dtypes import DType, Layout
from .shape import ConvShape

ASSUMED_IMAGES = 64         # of a layer with channels
ASSUMED_PIXELS = 256 * 256  # of single planes together, at least


def assumed_batch(shape: ConvShape) -> int:
    """The images that a layer's choice is made for: a plane comes alone if it is large, channels come in a batch.

    Layers on the tensor cores (see ``batch_matters``) have their own batch, down to a power of two and up to the one
    that is assumed for others: one image leaves most of a large GPU idle where its tiles are made for 64.
    """
    if shape.c == shape.k == 1:
        return max(1, ASSUMED_PIXELS // (shape.h * shape.w))
    return min(ASSUMED_IMAGES, 1 << shape.n.bit_length() - 1) if batch_matters(shape) else ASSUMED_IMAGES


def batch_matters(shape: ConvShape) -> bool:
    """Whether a layer's choice knows its batch: 16 bits, or float32 in NHWC, with several channels a group, where the
    reduction is long enough to be split when there are few pixels."""
    return shape.channels > 1 and (shape.dtype.is_half
                                   or shape.dtype is DType.FLOAT32 and shape.layout is Layout.NHWC)


def shared_batch(shape: ConvShape) -> int:
    """The batch that stands for all with which a layer shares its kernel."""
    return assumed_batch(shape) if batch_matters(shape) else 1
