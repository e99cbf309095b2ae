"""Windows: what a chunk is made of, what its task depends on, and how its pixels go to page-locked memory."""

from __future__ import annotations

import itertools
import os
import threading
import time
import types

import numpy as np
import pytest

from tests import settings
from warpconv.runtime.scale import staging
from warpconv.runtime.scale.reach import Overlap

da = pytest.importorskip("dask.array", reason="dask is not installed (it is in the extra dask)")

from warpconv.runtime.scale.windows import Window, filtered, held, spans     # noqa: E402 - behind the skip


def image(*shape):
    return settings.generator(91).standard_normal(shape).astype("float32")


# ---- which parts

def test_a_chunk_is_made_of_what_its_blocks_and_neighbours_have():
    assert spans((10, 10, 4), (10, 14), Overlap(3, 2)) == [[(0, 0, 10), (1, 0, 2)], [(0, 7, 10), (1, 0, 10), (2, 0, 4)]]
    assert spans((4, 4), (4, 4), Overlap(1, 3, True)) == [[(1, 3, 4), (0, 0, 4), (1, 0, 3)],
                                                          [(0, 3, 4), (1, 0, 4), (0, 0, 3)]]
    assert spans((3, 3), (3, 0, 3), Overlap()) == [[(0, 0, 3)], [(0, 0, 0)], [(1, 0, 3)]]


@pytest.mark.parametrize("seed", range(20))
def test_drawn_windows_have_the_pixels_of_a_padded_image(seed):
    """Any blocks, other chunks, overlaps longer than both, from the other side or not: by numpy.pad and a slice."""
    rng = settings.generator(92, seed)
    sizes = [tuple(map(int, rng.integers(1, 6, rng.integers(1, 5)))) for _ in range(3)]
    x = rng.standard_normal(tuple(map(sum, sizes)))
    chunks = [_cut(rng, extent) for extent in x.shape]
    overlaps = [Overlap(*map(int, rng.integers(0, 8, 2)), bool(rng.integers(2))) for _ in range(3)]
    padded = np.pad(x, [(o.before, o.after) if o.round else (0, 0) for o in overlaps], mode="wrap")
    blocks = da.from_array(x, chunks=tuple(sizes))
    for how in (blocks, blocks.map_blocks(lambda block: block, dtype=x.dtype, meta=np.empty((0, 0, 0)))):
        for threads in (False, True):
            made = filtered(how, "w", tuple(chunks), overlaps, lambda window, at, into: (at, window), x[:0], threads)
            for at, window in dask_get(made, list(flat(made.__dask_keys__()))):
                expected = padded
                for axis, (index, o) in enumerate(zip(at, overlaps)):
                    low = sum(chunks[axis][:index])
                    high = low + chunks[axis][index] + o.before + o.after
                    low, high = (low, high) if o.round else (max(low - o.before, 0), high - o.before)
                    expected = expected[(slice(None),) * axis + (slice(low, high),)]
                assert window.shape == expected.shape and window.nbytes == expected.nbytes
                assert np.array_equal(window.whole(), expected)
                some = tuple(sorted(map(int, rng.integers(0, extent + 1, 2))) for extent in window.shape)
                target = np.full([high - low for low, high in some], np.nan)
                window.copy(some, target)
                assert np.array_equal(target, expected[tuple(slice(*each) for each in some)])


def _cut(rng, extent):
    ends = sorted({extent, *map(int, rng.integers(1, extent + 1, 2))})
    return tuple(high - low for low, high in itertools.pairwise([0, *ends]))


def flat(keys):
    return itertools.chain(*map(flat, keys)) if isinstance(keys, list) else [keys]


def dask_get(array, keys):
    from dask.local import get_sync
    return get_sync(dict(array.dask), keys)


# ---- what a task depends on

def test_an_array_in_memory_is_looked_at_where_it_lies():
    x = image(40, 60)
    for view, chunks in ((x, (16, 25)), (x[::-1, 5:50], 9), (x.T, 12), (x[:, ::3], -1), (x[3], 7)):
        array = da.from_array(view, chunks=chunks)          # Dask's own copy of it, and views of that
        found = held(array)
        assert np.array_equal(found, view)
        assert all(np.shares_memory(found, block) for block in dask_get(array, list(flat(array.__dask_keys__()))))
    array = da.from_array(x, chunks=20)
    made = filtered(array, "w", ((20, 20), (20, 20, 20)), [Overlap(3, 3)] * 2, lambda window, at, into: window, x[:0])
    assert len(made.dask) == 6          # a task a chunk
    window, = dask_get(made, [("w", 1, 1)])
    assert np.shares_memory(window.first, held(array)) and window.grid == (1, 1) and window.shape == (23, 26)


def test_other_arrays_are_not():
    x = image(40, 40)
    one, other = np.split(x.copy(), 2)
    apart = da.from_array(x, chunks=20)
    shuffled = da.Array({("s", 0, 0): one, ("s", 1, 0): one}, "s", ((20, 20), (40,)), dtype=x.dtype, meta=x[:0])
    copies = da.Array({("c", 0, 0): one.copy(), ("c", 1, 0): other.copy()}, "c", ((20, 20), (40,)), dtype=x.dtype,
                      meta=x[:0])
    for array in (apart + 1, apart.rechunk(7), da.concatenate([apart, apart]), da.ones((9, 9), chunks=3), shuffled,
                  copies, da.from_array(np.ma.masked_array(x, x > 0), chunks=20)):
        assert held(array) is None


def test_between_workers_edges_travel_and_not_chunks():
    x = da.ones((60, 60), chunks=20)
    made = filtered(x, "w", x.chunks, [Overlap(2, 2)] * 2, lambda window, at, into: window, x._meta)
    cut = [key for key in made.dask.layers["w"] if key[0] == "w-edge"]
    assert len(cut) == len(set(cut)) == 4 * 3 + 4 * 5 + 8       # of corners, of sides, of the one between
    read = dask_get(made, cut)
    assert sum(part.size for part in read) < 0.3 * x.size * 2 and max(part.size for part in read) == 40
    near = filtered(x, "w", x.chunks, [Overlap(2, 2)] * 2, lambda window, at, into: window, x._meta, threads=True)
    assert len(near.dask.layers["w"]) == 9


# ---- to page-locked memory

@pytest.mark.parametrize("shape, most", [((7, 9), 1000), ((7, 9), 63), ((7, 9), 30), ((7, 9), 5), ((3, 4, 5, 6), 100),
                                         ((3, 4, 5, 6), 480), ((50,), 8), ((2, 1, 9), 4), ((1000, 2), 64)])
def test_bands_are_parts_without_gaps(shape, most):
    x = np.arange(np.prod(shape), dtype="int16").reshape(shape)
    made = []
    for region, offset in staging.bands(shape, 2, most):
        part = x[tuple(slice(*each) for each in region)]
        assert 0 < part.nbytes <= max(most, 2) and offset == 2 * len(made)
        made += part.ravel().tolist()
    assert made == x.ravel().tolist()


def test_idle_threads_help_and_busy_ones_are_not_waited_for():
    helpers, seen, barrier = staging.Helpers(2), [], threading.Barrier(3, timeout=20)

    def meet(number):
        seen.append(threading.current_thread().name)
        barrier.wait()

    helpers.share(meet, ((number,) for number in range(3)))      # which one thread alone would never get through
    assert len(set(seen)) == 3
    until = time.monotonic() + 20
    while helpers._idle < 2 and time.monotonic() < until:
        time.sleep(0.001)
    held_up = threading.Event()
    other = threading.Thread(target=helpers.share, args=(lambda number: held_up.wait(20), ((n,) for n in range(3))))
    other.start()
    while helpers._idle and time.monotonic() < until:
        time.sleep(0.001)
    alone = []
    helpers.share(lambda number: alone.append(threading.current_thread()), ((number,) for number in range(5)))
    held_up.set()
    other.join()
    assert alone == [threading.current_thread()] * 5


@pytest.mark.parametrize("count", [0, 3])
def test_a_failed_part_is_told_and_ends_the_others(count):
    helpers, begun = staging.Helpers(count), []

    def fails(number):
        begun.append(number)
        time.sleep(0.001)
        if number == 5:
            raise MemoryError("no more")

    with pytest.raises(MemoryError, match="no more"):
        helpers.share(fails, ((number,) for number in range(10_000)))
    assert len(begun) < 100
    helpers.share(begun.append, ((number,) for number in range(3)))     # they are there again


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_has_helpers_of_its_own():
    helpers = staging.Helpers(1)
    helpers.share(lambda number: time.sleep(0.01), ((number,) for number in range(2)))
    child = os.fork()
    if not child:
        done = []
        helpers.share(done.append, ((number,) for number in range(50)))
        os._exit(0 if sorted(done) == list(range(50)) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_block_on_its_way_is_taken_again_only_when_there_are_no_more(monkeypatch):
    monkeypatch.setattr(staging, "BLOCKS", 2)
    made = []

    def make():
        made.append(types.SimpleNamespace(event=types.SimpleNamespace(done=True)))
        return made[-1]

    blocks = staging.Blocks(make, lambda: threading.Lock())
    first = blocks.take()
    blocks.give(first)
    assert blocks.take() is first           # its copy is done
    first.event.done = False
    blocks.give(first)
    second = blocks.take()
    assert second is not first and len(made) == 2
    assert blocks.take() is first           # whoever takes it waits for it
    waiting = []
    other = threading.Thread(target=lambda: waiting.append(blocks.take()))
    other.start()
    time.sleep(0.02)
    assert not waiting
    blocks.give(second)
    other.join(20)
    assert waiting == [second]


def test_a_block_that_cannot_be_made_is_not_counted(monkeypatch):
    monkeypatch.setattr(staging, "BLOCKS", 1)
    fails = iter([True, False])

    def make():
        if next(fails):
            raise MemoryError("nothing can be locked")
        return "block"

    blocks = staging.Blocks(make, lambda: threading.Lock())
    with pytest.raises(MemoryError):
        blocks.take()
    assert blocks.take() == "block"


def test_memory_for_one_size_serves_those_near_it():
    assert [staging.rounded(n) for n in (0, 1, 15, 16, 17, 1000, 1025)] == [0, 1, 15, 16, 18, 1024, 1152]
    for n in map(int, settings.generator(93).integers(1, 2**33, 200)):
        assert n <= staging.rounded(n) <= n * 9 / 8 + 1


def test_a_whole_part_is_not_copied():
    x = image(5, 6)
    assert Window([x], (1, 1)).whole() is x
    assert Window([x[:, 1:]], (1, 1)).whole().flags.c_contiguous
