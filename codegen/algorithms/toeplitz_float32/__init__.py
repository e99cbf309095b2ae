"""NCHW, float32: a filter row as a banded matrix on the tensor cores, factors in two parts of float16."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
