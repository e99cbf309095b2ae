"""Planes and depthwise layers: several columns a lane, rows in registers or shared memory."""

from .plan import ALGORITHM

__all__ = ["ALGORITHM"]
