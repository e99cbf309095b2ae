"""The data gradient of a strided dense layer: a product of matrices by float32 units."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
