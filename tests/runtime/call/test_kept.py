"""Values that are made once for each key, by many threads at a time."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from warpconv.runtime.call.kept import Kept

SECONDS = 20.0      # nobody waits as long


def test_a_value_is_made_once_and_kept():
    kept, made = Kept(), []
    assert [kept.get("a", lambda: made.append(1) or 5) for _ in range(3)] == [5] * 3 and made == [1]
    assert (kept.find("a"), kept.find("b"), len(kept), kept.values()) == (5, None, 1, [5])
    assert [kept.get("none", lambda: made.append(2)) for _ in range(2)] == [None, None] and made == [1, 2]
    kept.clear()
    assert kept.get("a", lambda: 6) == 6


def test_threads_that_ask_for_different_keys_do_not_wait_for_each_other():
    kept, both = Kept(), threading.Barrier(2, timeout=SECONDS)
    with ThreadPoolExecutor(2) as pool:     # each is being made while the other is
        list(pool.map(lambda key: kept.get(key, both.wait), "ab"))
    assert len(kept) == 2


def test_threads_that_ask_for_the_same_key_have_it_made_once():
    kept, made, started, go_on = Kept(), [], threading.Event(), threading.Event()

    def make():
        made.append(threading.get_ident())
        started.set()
        assert go_on.wait(SECONDS)
        return object()

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(kept.get, "a", make) for _ in range(4)]
        assert started.wait(SECONDS) and not any(one.done() for one in asked)
        go_on.set()
        assert len({id(one.result(SECONDS)) for one in asked}) == 1
    assert len(made) == 1 and not kept._making


def test_what_fails_is_tried_again_by_the_next():
    kept = Kept()
    with pytest.raises(ZeroDivisionError):
        kept.get("a", lambda: 1 / 0)
    assert kept.get("a", lambda: 3) == 3 and not kept._making


def test_a_value_may_be_made_of_others():
    kept = Kept()
    assert kept.get("a", lambda: kept.get("b", lambda: 1) + kept.get("b", lambda: 2)) == 2


def test_a_full_cache_starts_again():
    kept = Kept(most=3)
    for number in range(10):
        assert kept.get(number, lambda number=number: number) == number
    assert len(kept) <= 4
