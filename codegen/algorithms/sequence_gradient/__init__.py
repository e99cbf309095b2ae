"""``sequence_gradient``: the gradient of long depthwise filters of one row by float32 units."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
