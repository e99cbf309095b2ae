"""NCHW, 16 bits, filters of one row: a sequence folded into rows that overlap, on the tensor cores."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
