"""Groups of a few channels in float32 and NHWC, by float32 units: several groups' pixels at a time."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
