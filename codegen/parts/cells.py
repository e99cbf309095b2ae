"""Pixels in shared memory whose channels lie side by side, eights of 16-bit elements; the template has this name."""

from __future__ import annotations

REPEAT = 8          # pixels by which the places of their octets repeat


def are_permuted(octets: int) -> bool:
    """Whether a pixel's octets have places that depend on the pixel, so that those of eight pixels lie in all banks."""
    return octets in (2, 4, 8)


def whole(pixels: int) -> int:
    """At least so many pixels, after which places are as at the first."""
    return pixels + -pixels % REPEAT
