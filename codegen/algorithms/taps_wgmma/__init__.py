"""16 bits of few channels on Hopper's warp groups: windows from shared memory to registers, the filter resident."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
