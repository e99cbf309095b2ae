"""Small planes, whole in shared memory."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
