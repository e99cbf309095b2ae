"""The gradient of a dense layer's filter: a product of matrices on the tensor cores (mma.sync, sm_80 on)."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
