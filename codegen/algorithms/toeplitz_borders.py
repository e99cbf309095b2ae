"""What ``toeplitz`` and ``toeplitz_nhwc`` do about what stands outside of an image: numbers, and a fragment's name."""

from __future__ import annotations

from dataclasses import dataclass

from ..border import Border
from ..spec import KernelSpec
from .wide_borders import element_bits

MOST_HELD = 2        # elements outside of a band's rows that a thread holds on their way
MOST_OF_PLANE = 6    # and of a plane's, whose places have registers, too


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

    def held_rows(self, threads: int) -> int:
        """Rows whose columns outside ``threads`` hold together, each one element; 0 where a row has more, or none."""
        return threads // self.columns if self.columns else 0

    def held(self, rows: int, threads: int) -> int:
        """Elements that each of ``threads`` holds of a band's ``rows``; 0 where those are too many, or none."""
        rows_held = self.held_rows(threads)
        needed = -(-rows // rows_held) if rows_held else 0
        return needed if needed <= MOST_HELD else 0

    def held_of_plane(self, rows: int, threads: int) -> int:
        """The same of a plane of ``rows`` rows, those outside counted."""
        needed = -(-rows * self.columns // threads)
        return needed if needed <= MOST_OF_PLANE else 0


def make_border(spec: KernelSpec) -> ToeplitzBorder:
    if spec.padding_mode is Border.ZEROS:
        kind, bits = "zeros", 0
    elif spec.padding_mode.reads_image:
        kind, bits = "pixels", 0
    else:
        kind, bits = "value", element_bits(spec.dtype, spec.padding_value) or 0
    return ToeplitzBorder(kind=kind, word=f"0x{bits * 0x10001:08x}u", left=spec.padding[1][0],
                          right=spec.padding[1][1], bottom=spec.padding[0][1])
