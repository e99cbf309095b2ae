"""The gradient of filters of one row of 16-bit elements: sequences as matrices on the tensor cores; NCHW."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
