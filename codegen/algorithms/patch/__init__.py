"""Large filters: many columns of a row a lane, weights and a patch of the plane in shared memory."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
