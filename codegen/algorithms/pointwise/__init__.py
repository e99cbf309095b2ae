"""1x1 layers of float32 in NCHW on Hopper's warp groups, rounded to TF32: pixels to registers from where they lie."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
