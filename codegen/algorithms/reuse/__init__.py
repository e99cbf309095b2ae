"""Column and row reuse (Lu, Zhang, Wang, CLUSTER 2020, Algorithm 4, corrected)."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
