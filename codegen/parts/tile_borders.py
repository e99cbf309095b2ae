"""What ``toeplitz`` and ``toeplitz_nhwc`` do about what stands outside of an image: numbers, and a fragment's name."""

from __future__ import annotations

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass
from warpconv.codegen.spec import KernelSpec

from .occupancy import largest_divisor

MOST_HELD = 8        # elements outside of a band's rows that a thread loads together
MOST_KEPT = 2        # up to so many their places stay in registers
MOST_OF_PLANE = 6    # of a plane's, whose places have registers, too
MOST_OF_ROWS = 2     # copies of a thread in a plane's rows outside, whose places have registers


@dataclass(frozen=True)
class ToeplitzBorder:
    """What stands outside, as the templates write it; columns are those beside the image that windows reach."""

    kind: str                    # of the fragments: zeros, pixels of the image, or one value
    left: int
    right: int
    top: int                     # rows above and below the image
    bottom: int

    @property
    def rows(self) -> int:
        return self.top + self.bottom

    @property
    def columns(self) -> int:
        return self.left + self.right

    def held_rows(self, rows: int, threads: int) -> int:
        """Of a band's ``rows`` those whose columns outside ``threads`` hold together, each one element, so that the
        rest takes as many again and again; 0 where a row has more, or none."""
        return largest_divisor(rows, threads // self.columns) if 0 < self.columns <= threads else 0

    def held(self, rows: int, threads: int) -> int:
        """Elements that each of ``threads`` holds of a band's ``rows``; 0 where those are too many, or none."""
        rows_held = self.held_rows(rows, threads)
        needed = rows // rows_held if rows_held else 0
        return needed if needed <= MOST_HELD else 0

    def row_copies(self, chunks: int, threads: int) -> int:
        """Copies of each of ``threads`` in the rows outside of a plane of ``chunks`` a row; 0 where those are many."""
        needed = -(-self.rows * chunks // threads)
        return needed if needed <= MOST_OF_ROWS else 0

    def held_of_plane(self, rows: int, threads: int) -> int:
        """The same of a plane of ``rows`` rows, those outside counted."""
        needed = -(-rows * self.columns // threads)
        return needed if needed <= MOST_OF_PLANE else 0


def make_border(spec: KernelSpec) -> ToeplitzBorder:
    kind = "pixels" if spec.padding_mode.reads_image else "zeros" if spec.padding_mode is Border.ZEROS else "value"
    return ToeplitzBorder(kind=kind, left=spec.padding[1][0], right=spec.padding[1][1], top=spec.padding[0][0],
                          bottom=spec.padding[0][1])
