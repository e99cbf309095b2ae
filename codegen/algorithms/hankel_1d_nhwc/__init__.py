"""The gradient of filters of one row of 16-bit elements: channels' sequences as matrices on the tensor cores; NHWC."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
