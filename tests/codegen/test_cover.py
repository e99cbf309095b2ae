"""The search for covering arrays, and how kept ones are mended."""

from __future__ import annotations

import itertools
import json

import pytest

from tests import algorithms, cover
from warpconv.codegen.registry import ALGORITHMS, GRADIENTS, VOLUMES

AXES = {"a": (1, 2, 3), "b": ("x", "y"), "c": (None, 2.5)}


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """An array of AXES for an algorithm "one", kept in a folder of the test."""
    axes = {"one": dict(AXES)}
    monkeypatch.setattr(cover, "AXES", axes)
    monkeypatch.setattr(cover, "folder_of", lambda algorithm: tmp_path)
    yield axes
    cover.rows.cache_clear()
    cover._read.cache_clear()


def forget():
    cover.rows.cache_clear()
    cover._read.cache_clear()


def pairs(rows):
    return {pair for row in rows for pair in itertools.combinations(row.items(), 2)}


def test_every_pair_is_found_except_those_refused():
    def accepted(row):
        return (row["a"], row["b"]) != (3, "x")

    found = cover.search(AXES, accepted, seed=1)
    wanted = {pair for values in itertools.product(*AXES.values())
              for pair in itertools.combinations(zip(AXES, values), 2)}
    assert pairs(found) == wanted - {(("a", 3), ("b", "x"))} and len(found) < 12
    assert found == cover.search(AXES, accepted, seed=1)


def test_what_is_written_is_read(kept):
    found = cover.search(AXES, lambda row: True, seed=1)
    cover.write("one", found)
    forget()
    assert cover.rows("one") == tuple(found) and not cover.stale("one")


def test_rows_that_are_refused_are_replaced_and_the_others_stay(kept):
    found = cover.search(AXES, lambda row: True, seed=1)
    cover.write("one", found)
    forget()

    def accepted(row):
        return row != found[2]

    mended, stay = cover.mend("one", accepted)
    assert stay == len(found) - 1 and mended[:stay] == [row for row in found if row != found[2]]
    assert found[2] not in mended and pairs(mended) == pairs(found)


def test_nothing_is_searched_where_all_rows_are_taken(kept):
    found = cover.search(AXES, lambda row: row["a"] != 3, seed=1)
    cover.write("one", found)
    forget()
    asked = []
    mended, stay = cover.mend("one", lambda row: asked.append(row) or row["a"] != 3)
    assert mended == found and stay == len(found) == len(asked)


def test_new_values_and_new_axes_are_added(kept):
    cover.write("one", cover.search(AXES, lambda row: True, seed=1))
    kept["one"] = {**AXES, "b": ("y", "z"), "d": (0, 1)}
    forget()
    assert {text.split(" is ")[0] for text in cover.stale("one")} == {"b = 'x'", "b = 'z'", "d = 0", "d = 1"}
    mended, _ = cover.mend("one", lambda row: True)
    assert pairs(mended) == {pair for values in itertools.product(*kept["one"].values())
                             for pair in itertools.combinations(zip(kept["one"], values), 2)}


def test_every_algorithm_has_a_room_and_a_kept_array():
    assert set(algorithms.ROWS) == set(ALGORITHMS)
    assert set(algorithms.EVERY) == {*ALGORITHMS, *GRADIENTS, *VOLUMES}
    for name in algorithms.EVERY:
        assert name in json.loads((algorithms.folder_of(name) / "covering.json").read_text(encoding="utf-8"))
