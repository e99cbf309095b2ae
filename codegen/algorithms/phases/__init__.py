"""The data gradient of any layer, by the phases of its stride."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
