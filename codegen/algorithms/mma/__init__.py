"""Dense and grouped layers: a product of matrices on the tensor cores (mma.sync, sm_80 on)."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
