"""16 bits of few channels by mma.sync: windows from shared memory to registers, the filter resident."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
