"""Images of differing sizes, each filtered in its own borders, by one launch."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
