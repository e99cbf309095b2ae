"""float32 of few channels on Hopper's warp groups: windows from shared memory to registers, filters by descriptor."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
