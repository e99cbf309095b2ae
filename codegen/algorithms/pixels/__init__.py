"""Images of 8- and 16-bit integers."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
