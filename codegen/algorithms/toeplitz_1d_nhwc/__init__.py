"""NHWC, 16 bits, filters of one row: channels' sequences folded into rows that overlap, on the tensor cores."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
