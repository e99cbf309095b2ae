"""Dense layers: a product of matrices by Hopper's warp groups (wgmma), copied by descriptors (TMA)."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
