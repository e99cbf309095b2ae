"""The table of a ragged batch: where its planes lie and how large they are, as kernels read it and the run time writes
it."""

from __future__ import annotations

import enum


class Place(enum.IntEnum):
    """What a row of the table, of whole numbers of 64 bits, says about a plane; distances are in elements.

    Row 0 says how many planes there are; the planes follow, none of them empty.
    """

    TILE = 0        # the plane's first one, counted through the batch
    X = 1           # its first pixel in x
    Y = 2           # and in y
    RESIDUAL = 3    # and in the residual, which lies as y does
    H = 4           # rows
    W = 5           # columns
    X_ROW = 6       # from one row of x to the next
    X_COLUMN = 7    # from one column of x to the next
    Y_ROW = 8
    Y_COLUMN = 9
    FILTER = 10     # which of the filters


FIELDS = 12         # of a row: a multiple of 32 bytes
STRIP = 8           # outputs of a thread, one below the other: a block of X x Y threads makes a tile of X x STRIP * Y
