"""The gradient of a dense layer's filter by Hopper's warp groups (wgmma, compute capability 9.0)."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
