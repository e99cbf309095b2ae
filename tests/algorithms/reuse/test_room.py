"""``reuse``: the case table on the CPU device, and the texts under review."""

from tests import cases
from tests.room import Table, Texts


class TestTable(Table):
    def test_every_width_and_the_sizes_around_a_warp_are_in_the_table(self):
        widths = {dict(case.layer)["s"] for case in cases.table("reuse")}
        assert widths >= {*range(1, 14), 31}
        sizes = cases.size_table("reuse")
        for axis in (1, 2):
            assert {size[axis] for size in sizes} >= {1, 31, 32, 33, 63, 64, 65}
        assert any(h >= 200 > 10 > w for _, h, w in sizes) and any(w >= 200 > 10 > h for _, h, w in sizes)


class TestTexts(Texts):
    pass
