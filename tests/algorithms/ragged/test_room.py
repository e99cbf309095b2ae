"""``ragged``: the case table as it is kept, and the texts under review."""

from tests.room import Kept, Texts


class TestTable(Kept):
    pass


class TestTexts(Texts):
    pass
