"""The input stored as windows, then a tiled product (arXiv 2306.14316)."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
