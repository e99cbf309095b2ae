"""What ``toeplitz`` and ``toeplitz_nhwc`` do about what stands outside of the image: numbers, and the fragment's name."""

from __future__ import annotations

from dataclasses import dataclass

from ..border import Border
from ..spec import KernelSpec
from .wide_borders import element_bits

MOST_HELD = 4        # columns of a band that a thread holds on their way
MOST_NAMED = 16      # columns outside of a plane whose places have registers


@dataclass(frozen=True)
class ToeplitzBorder:
    """What stands outside, as the templates write it; columns are those beside the image that windows reach."""

    kind: str                    # of the fragments: zeros, pixels of the image, or one value
    word: str                    # two elements of the value
    left: int
    right: int
    bottom: int                  # rows below the image

    @property
    def columns(self) -> int:
        return self.left + self.right

    @property
    def named(self) -> bool:
        """Whether each column's place is worked out once."""
        return self.columns <= MOST_NAMED

    def rounds(self, rows: int, threads: int) -> int:
        """Columns of ``rows`` rows that each of ``threads`` holds on their way; 0 where those are too many, or none."""
        needed = -(-rows * self.columns // threads)
        return needed if needed <= MOST_HELD else 0


def make_border(spec: KernelSpec) -> ToeplitzBorder:
    if spec.padding_mode is Border.ZEROS:
        kind, bits = "zeros", 0
    elif spec.padding_mode.reads_image:
        kind, bits = "pixels", 0
    else:
        kind, bits = "value", element_bits(spec.dtype, spec.padding_value) or 0
    return ToeplitzBorder(kind=kind, word=f"0x{bits * 0x10001:08x}u", left=spec.padding[1][0],
                          right=spec.padding[1][1], bottom=spec.padding[0][1])
