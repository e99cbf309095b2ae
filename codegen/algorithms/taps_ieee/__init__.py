"""float32 of few channels by float32 units: rows of windows in registers, all filters in shared memory."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
