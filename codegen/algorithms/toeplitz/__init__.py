"""NCHW, 16 bits: a filter row as a banded matrix on the tensor cores."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
