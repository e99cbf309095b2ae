"""The comparison of two checkouts, on the CPU device."""

import json
import shutil
from pathlib import Path

import pytest

from bench import trees


class Drawn:
    """A tree whose samples are given."""

    def __init__(self, times):
        self.times = iter(times)
        self.asked = []

    def ask(self, do, *given):
        self.asked.append(do)
        if do == "sample":
            return {"us": next(self.times)}
        return {"sums": [4.0, 1.0], "algorithm": "wide"} if do == "load" else {}


def test_a_ratio_is_the_median_of_the_turns_with_its_interval():
    ours, theirs = [2.0, 2.0, 2.0, 2.0, 2.0, 20.0, 2.0], [2.0, 2.1, 1.9, 2.0, 2.2, 2.0, 2.0]
    found = trees._turns([Drawn(ours), Drawn(theirs)], 7)
    assert found["ratio"] == 1.0 and found["us"] == 2.0
    assert found["low"] <= 0.95 and found["high"] >= 1.05


def test_what_looks_slower_is_measured_again_and_judged_by_its_interval():
    both = [Drawn([2.0] * 100), Drawn([1.8] * 100)]
    found = trees.compare(both, {"name": "a"})
    assert found["turns"] == trees.AGAIN and found["high"] < trees.SLOWER
    assert both[0].asked[0] == "load" and both[0].asked[-1] == "free"
    assert "**slower**" in trees.table([found]) and "1 slower" in trees.table([found])
    even = trees.compare([Drawn([2.0] * 100), Drawn([2.0] * 100)], {"name": "a"})
    assert even["turns"] == trees.TURNS and "**slower**" not in trees.table([even])


def test_results_that_differ_are_no_row():
    class Wrong(Drawn):
        def ask(self, do, *given):
            return {"sums": [4.0, 2.0], "algorithm": "wide"} if do == "load" else super().ask(do, *given)

    found = trees.compare([Drawn([2.0]), Wrong([2.0])], {"name": "a"})
    assert "results differ" in found["failed"]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None and shutil.which("clang++") is None, reason="no C++ compiler")
def test_a_tree_beside_itself(tmp_path):
    root = Path(trees.__file__).parents[1]
    trees.main([str(root), "--device", "cpu", "--only", "small planes/1x1x256/3x3", "-o", str(tmp_path / "found")])
    row, = json.loads((tmp_path / "found.json").read_text())
    assert row["algorithms"][0] == row["algorithms"][1] and row["us"] > 0
    assert "1 of 1 rows measured" in (tmp_path / "found.md").read_text()
