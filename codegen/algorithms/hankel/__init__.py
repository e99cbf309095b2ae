"""The gradient of depthwise filters, on tensor cores."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
