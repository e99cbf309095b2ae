"""16 bits, up to 32 channels a group (first layers, ResNeXt's): pixels in shared memory for all taps, tensor cores."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
