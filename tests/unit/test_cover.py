"""The kept covering arrays are those that the search finds."""

from __future__ import annotations

import pytest

from tests import cases, cover, settings


def test_the_kept_arrays_are_of_this_tree():
    """Else every collection searches for over a minute."""
    assert cover.kept() is not None, "axes or planners have changed: python -m tests.cover"


@pytest.mark.parametrize("algorithm", cover.AXES if settings.whole else ("naive", "channels"))
def test_the_search_finds_what_is_kept(algorithm):
    assert cover.rows(algorithm) == cases.search(algorithm)
