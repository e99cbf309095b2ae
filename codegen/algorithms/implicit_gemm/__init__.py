"""A tiled product of matrices; the image is gathered as it is needed."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
