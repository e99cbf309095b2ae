"""The data gradient of a strided dense layer: products of matrices by Hopper's warp groups for each phase."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
