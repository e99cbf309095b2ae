"""NHWC, depthwise: a lane holds several channels, rows in registers or in shared memory."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
