"""16 bits, up to four channels a group (first layers, ResNeXt's): four taps at a time on the tensor cores."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
