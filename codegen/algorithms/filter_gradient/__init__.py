"""The gradient of a filter."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
