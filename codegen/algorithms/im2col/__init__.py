"""A generated lowering around a library's matrix product."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
