"""Any layer: every tap loaded."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
