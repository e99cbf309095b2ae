"""The plan values of ``wgmma``."""

from __future__ import annotations

import enum

from warpconv.codegen.classes import dataclass
from warpconv.codegen.options import DERIVED, only


class Form(enum.Enum):
    """How pixels come to shared memory."""

    IM2COL = "im2col"       # a slice of one tap a stage, over rows and images
    HALO = "halo"           # one box for all taps of a slice (of volumes for those of a filter plane), or a column's
    PLANES = "planes"       # of 16 bits, from where they lie in NCHW: pixels of a channel side by side


class Order(enum.Enum):
    """How the boxes of the form halo lie in memory."""

    PIXELS = "pixels"       # the channels of a pixel side by side: NHWC, or what the pass to it leaves
    PLANES = "planes"       # the pixels of a channel: NCHW as it is, turned while float32 is split


class Box(enum.Enum):
    """Which taps one box of the form halo is for."""

    TAPS = "taps"           # all, of volumes a filter plane's: its columns are the tile's and those that the filter
                            # reaches besides
    COLUMN = "column"       # a filter column's: no column of the products is dropped


class Filter(enum.Enum):
    """How filters come to shared memory, in the forms im2col and planes."""

    STAGES = "stages"       # with the pixels that they multiply, again for every tile
    STAYS = "stays"         # once, for all tiles of a block


class Window(enum.Enum):
    """What a step of the form im2col copies of a pixel's window."""

    TAP = "tap"             # a slice of the channels of one tap, from x
    ROW = "row"             # a slice of all that it has: windows that do not overlap, each put side by side before


@dataclass(frozen=True)
class WgmmaOptions:
    """Plan values. A tile has ``filters`` x ``pixels`` outputs; ``stages`` slices lie in the ring; ``splits`` blocks
    share the sums of a tile, added up in a fixed order by a second launch. In the form ``halo`` a tile is ``rows`` x
    ``columns`` outputs of an image, which ``pixels`` columns of the products hold, and ``boxes`` slices of pixels lie
    in a ring of their own, each ``box`` for all taps or for those of a filter column; in the ``order`` of planes they
    are split from ``ring`` boxes in another one. At most ``buffer`` pixels of outputs are stored at a time. In the form
    ``planes``, of 1x1 layers of 16 bits in NCHW, a tile lies in one image. ``window`` = row is for windows that do not
    overlap, which a launch before writes as rows of a matrix."""

    form: Form = Form.IM2COL
    filters: int = 128
    pixels: int = 128
    stages: int = 4
    buffer: int = only(DERIVED, form=Form.IM2COL)
    splits: int = only(1, form=(Form.IM2COL, Form.PLANES))
    rows: int = only(1, form=Form.HALO)
    columns: int = only(1, form=Form.HALO)
    boxes: int = only(2, form=Form.HALO)
    box: Box = only(Box.TAPS, form=Form.HALO)
    order: Order = only(Order.PIXELS, form=Form.HALO)
    ring: int = only(2, order=Order.PLANES)
    filter: Filter = only(Filter.STAGES, form=(Form.IM2COL, Form.PLANES))
    window: Window = only(Window.TAP, form=Form.IM2COL)

    @property
    def by_columns(self) -> bool:
        """Whether each filter column has boxes of its own."""
        return self.box is Box.COLUMN

    @property
    def stays(self) -> bool:
        """Whether the filters of a block stay in shared memory."""
        return self.filter is Filter.STAYS

    @property
    def turned(self) -> int:
        """Boxes in the ring of those that are turned; 0 where none are."""
        return self.ring if self.order is Order.PLANES else 0

    @property
    def unfolded(self) -> bool:
        """Whether windows are rows."""
        return self.window is Window.ROW
