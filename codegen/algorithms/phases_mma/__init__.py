"""The data gradient of a strided dense layer: a product of matrices for each phase of the stride (mma.sync)."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
