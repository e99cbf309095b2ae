"""The gradient of a bias: the output's, summed over the batch and the pixels."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
