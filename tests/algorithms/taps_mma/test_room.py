"""``taps_mma``: the case table on the CPU device, and the texts under review."""

from tests.room import Table, Texts


class TestTable(Table):
    pass


class TestTexts(Texts):
    pass
