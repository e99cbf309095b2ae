"""NHWC depthwise, 16 bits: filters of two channels as one sparse matrix on the tensor cores."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
