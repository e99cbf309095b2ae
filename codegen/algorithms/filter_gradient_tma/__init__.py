"""``filter_gradient_tma``: filter gradients of float32 layers, copied by descriptors, multiplied by mma.sync."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
