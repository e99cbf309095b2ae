"""SciPy's calls on Dask's arrays: every chunk's edge, by the call on the whole array and by SciPy."""

from __future__ import annotations

import inspect
import pickle
import re

import numpy as np
import pytest

import warpconv
from bench.studies.scale_calls import MODES, NAMES, drawn_call
from tests import checks, settings
from warpconv.codegen.border import Border
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.runtime.ndimage.lines import Pass, line_of, moved
from warpconv.runtime.ndimage.work import Passes

from .calls import agree

da = pytest.importorskip("dask.array", reason="dask is not installed (it is in the extra dask)")
pytest.importorskip("scipy", reason="scipy is not installed (it is in the test extra)")

import dask                                                      # noqa: E402 - behind the skip
import warpconv.dask as chunked                                  # noqa: E402
from warpconv.runtime.scale.reach import Overlap, overlaps       # noqa: E402

needs_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
TAPS = np.array([[1.0, -2, 3, 4], [5, 6, -7, 8], [-9, 1, 2, 3]]) / 16


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def image(*shape, dtype="float32"):
    rng = settings.generator(41)
    return rng.standard_normal(shape).astype(dtype) if dtype.startswith("f") else \
        rng.integers(0, 200, shape).astype(dtype)


@pytest.mark.thin(3)
@needs_cpu
@pytest.mark.parametrize("mode", MODES)
def test_every_chunk_edge_in_every_mode(mode):
    """Bit for bit by a named algorithm; chunks of 2 pixels, which are joined, among those that are long enough."""
    x = image(29, 34)
    options = {"mode": mode, "cval": 2.5, "origin": (1, -2), "algorithm": "direct", "device": "cpu"}
    whole = warpconv.correlate(x, TAPS, **options)
    for chunks in ((9, 11), ((2, 20, 7), (34,)), ((29,), (4,) * 8 + (2,))):
        made = chunked.correlate(da.from_array(x, chunks=chunks), TAPS, **options)
        assert np.array_equal(made.compute(), whole)


@pytest.mark.thin(4)
@needs_cpu
@pytest.mark.parametrize("seed", range(4))
def test_drawn_calls_agree(seed):
    agree(*drawn_call(settings.generator(42, seed)))


@needs_cpu
@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_more_drawn_calls_agree(seed):
    agree(*drawn_call(settings.generator(43, seed)))


@pytest.mark.long
@needs_cpu
def test_one_mode_for_each_axis_and_other_types():
    x = image(20, 31, dtype="uint8")
    d = da.from_array(x, chunks=(7, 8))
    for call, options in ((chunked.sobel, {"mode": ["wrap", "mirror"], "output": "int16"}),
                          (chunked.uniform_filter, {"size": (3, 2), "mode": ("nearest", "wrap"), "output": "float32"})):
        made = call(d, device="cpu", **options)
        expected = getattr(warpconv, call.__name__)(x, device="cpu", **options)
        assert made.dtype == expected.dtype
        assert np.array_equal(made.compute(), expected)
    mask = x > 100
    made = chunked.uniform_filter(da.from_array(mask, chunks=9), 3, output="float64", dtype="uint8", device="cpu")
    assert made.dtype == np.float64
    assert np.array_equal(made.compute(), warpconv.uniform_filter(mask, 3, output="float64", dtype="uint8",
                                                                  device="cpu"))
    swapped = x.astype(">u2")
    assert np.array_equal(chunked.sobel(da.from_array(swapped, chunks=9), output="float32", device="cpu").compute(),
                          warpconv.sobel(x.astype("uint16"), output="float32", device="cpu"))


def test_tasks_have_the_call_s_name_and_their_plans_cross_processes():
    made = chunked.gaussian_filter(da.from_array(image(16, 16), chunks=8), 1, device="cpu")
    assert made.name.startswith("warpconv-gaussian_filter-")
    assert {key[0] for key in made.__dask_keys__()[0]} == {made.name}
    again = chunked.gaussian_filter(da.from_array(image(16, 16), chunks=8), 1, device="cpu")
    other = chunked.gaussian_filter(da.from_array(image(16, 16), chunks=8), 2, device="cpu")
    assert made.name == again.name != other.name       # the same call is the same task
    assert len(pickle.dumps(made.__dask_graph__())) < 1e6


@needs_cpu
def test_chunks_that_are_not_aligned_are_copied():
    """As they may be behind a message from another worker."""
    x = image(12, 12)
    odd = np.frombuffer(b"." + x.tobytes(), np.uint8)[1:].view("float32").reshape(12, 12)
    assert not odd.flags.aligned
    made = chunked.sobel(da.from_array(x, chunks=-1).map_blocks(lambda block: odd, dtype="float32", meta=x[:0]),
                         device="cpu")
    assert np.array_equal(made.compute(), warpconv.sobel(x, device="cpu"))


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_warpconv_s_and_docstrings_have_every_argument(name):
    ours, theirs = (inspect.signature(getattr(module, name)).parameters for module in (chunked, warpconv))
    assert list(ours.values()) == [each for key, each in theirs.items() if key != "stream"]
    text = inspect.getdoc(getattr(chunked, name))
    assert not [key for key in ours if not re.search(rf"(?<!\w){key}(?!\w)", text)]
    assert name in chunked.__all__ and "Returns" in text and "Raises" in text


def test_nothing_is_computed_before_it_is_asked_for():
    def never(block):
        raise AssertionError("computed")

    d = da.from_array(image(16, 16), chunks=8).map_blocks(never, dtype="float32", meta=np.empty((0, 0), "float32"))
    assert chunked.laplace(d, output="float16").dtype == np.float16


# ---- overlaps, from plans

def passes(*lines):
    return Passes.chain([Pass.along(line) for line in lines])


def test_an_axis_is_overlapped_as_far_as_its_filter_reads():
    told = passes(line_of(np.ones(5), 0, "reflect", 0, origin=-2), line_of(np.ones(4), 1, "wrap", 0))
    found, chunks = overlaps(told, ((10, 10), (8, 8), (3, 3)))
    assert found == [Overlap(0, 4), Overlap(2, 2, True), Overlap()]
    assert chunks == ((10, 10), (8, 8), (3, 3))
    assert overlaps(told, ((20,), (16,), (6,)))[0] == [Overlap()] * 3       # the kernel's border does it


def test_filters_one_after_the_other_reach_as_far_as_both():
    border = Border.named("nearest", "scipy"), 0.0
    told = Passes([[moved(0, 3, *border), Pass.along(line_of(np.ones(3), 0, "nearest", 0))],
                   [moved(0, -4, *border)]])
    assert overlaps(told, ((9, 9),))[0] == [Overlap(4, 4)]


def test_short_chunks_are_joined():
    far = passes(line_of(np.ones(9), 0, "mirror", 0))
    assert overlaps(far, ((5, 5, 5),))[1] == ((5, 5, 5),)         # 4 pixels and the edge, which mirror leaves out
    assert overlaps(far, ((4, 4, 4),))[1] != ((4, 4, 4),)
    assert min(overlaps(far, ((4, 4, 4),))[1][0]) >= 5
    assert overlaps(far, ((3, 3),))[1] == ((6,),)
    told = Passes([[Pass.along(line_of(np.ones(3), 0, "wrap", 0))], [Pass.along(line_of(np.ones(3), 0, "reflect", 0))]])
    assert overlaps(told, ((8, 8),)) == ([Overlap()], ((16,),))   # both borders along one axis


# ---- refused before anything is computed

def test_refusals_name_the_argument():
    d = da.from_array(image(12, 12), chunks=6)
    with pytest.raises(ArgumentTypeError, match="input is no Dask array") as caught:
        chunked.sobel(image(12, 12))
    assert caught.value.argument == "input" and "from_array" in caught.value.hint
    with pytest.raises(ArgumentTypeError, match="not written to"):
        chunked.sobel(d, output=np.empty((12, 12), "f"))
    with pytest.raises(ArgumentError, match="unknown device"):
        chunked.sobel(d, device="gpu")
    with pytest.raises(ArgumentError, match="chunks are not known"):
        chunked.sobel(d[d[:, 0] > 0])
    with pytest.raises(ArgumentError, match="origin"):
        chunked.correlate(d, TAPS, origin=3)
    with pytest.raises(ShapeError, match="weights"):
        chunked.correlate(d, np.ones((3, 3, 3)))
    with pytest.raises(ArgumentTypeError, match="no kernel reads float64"):
        chunked.sobel(d.astype("float64"))


@needs_cpu
def test_no_elements_and_one_chunk():
    none = chunked.gaussian_filter(da.zeros((0, 5), dtype="float32", chunks=4), 1, device="cpu")
    assert none.shape == (0, 5) and none.compute().shape == (0, 5)
    x = image(11, 12)
    assert np.array_equal(chunked.gaussian_filter(da.from_array(x, chunks=-1), 1, device="cpu").compute(),
                          warpconv.gaussian_filter(x, 1, device="cpu"))


# ---- sizes of chunks

def test_chunks_take_their_budget_and_not_more():
    for shape, dtype, budget, depth in (((100000, 100000), "uint8", "256M", 16), ((9, 4000, 3000), "float32", 2**24, 2),
                                        ((50000,), "int16", 4000, 0), ((3000, 5000, 3), "uint8", "10MB", (4, 4, 0))):
        sizes = chunked.chunks(shape, dtype, budget, depth)
        far = depth if isinstance(depth, tuple) else (depth,) * len(shape)
        width = np.dtype(dtype).itemsize
        around = [min(n, size + 2 * reach) for n, size, reach in zip(shape, sizes, far)]
        room = {"256M": 2**28, "10MB": 10 * 2**20}.get(budget, budget)
        assert room / 4 < 3 * width * np.prod(around, dtype=float) <= room
        assert all(1 <= size <= n for size, n in zip(sizes, shape))
    assert chunked.chunks((8, 9), "float32") == (8, 9)
    assert chunked.chunks((0, 5), "uint8") == (1, 5)


@pytest.mark.parametrize("shape, dtype", [
    ((90000, 90000), "float32"), ((100000, 100000), "uint8"), ((2000, 3000, 4000), "uint16"), ((50, 10**6), "float64"),
    ((10**8,), "int16"), ((7, 3, 6000, 5000), "float32"), ((4, 5), "uint8"), ((10**7, 3), "float32")])
def test_chunks_of_long_lines(shape, dtype):
    """What lies one after the other is 128 KB or more, or what the array has; the budget holds, parts are even."""
    sizes, width = chunked.chunks(shape, dtype, line="128K"), np.dtype(dtype).itemsize
    run = width
    for size, n in zip(reversed(sizes), reversed(shape)):
        run *= size
        if size < n:
            break
    assert run >= min(2**17, width * np.prod(shape, dtype=float))
    assert 3 * width * np.prod(sizes, dtype=float) <= 2**28 and all(1 <= size <= n for size, n in zip(sizes, shape))
    if shape[-1] > sizes[-1]:
        assert shape[-1] / sizes[-1] > 0.95 * -(-shape[-1] // sizes[-1])


def test_lines_are_as_long_as_the_budget_allows():
    rows, columns = chunked.chunks((9000, 90000), "float32", "300K", 16, line="1M")
    assert 3 * 4 * (rows + 32) * (columns + 32) <= 300 * 2**10 and columns > 4 * rows
    assert chunked.chunks((90000, 90000), "float32", line="128K", multiple=1000)[1] % 1000 == 0
    assert chunked.chunks((0, 5), "uint8", line="128K") == (1, 5)
    for wrong in ("long", 0, -4):
        with pytest.raises(ArgumentError, match="line"):
            chunked.chunks((90, 90), "uint8", line=wrong)


def test_chunks_are_multiples_of_the_file_s():
    assert all(size % 256 == 0 for size in chunked.chunks((100000, 90000), "uint8", "64M", 8, multiple=256))
    assert chunked.chunks((1000, 100), "uint8", "64M", multiple=256) == (1000, 100)
    with pytest.raises(ArgumentError, match="no chunk is so small") as caught:
        chunked.chunks((9000, 9000), "float32", 2**20, 2, multiple=512)
    assert "at least" in caught.value.hint
    for wrong, error in (({"budget": "much"}, ArgumentError), ({"budget": 0}, ArgumentError),
                         ({"depth": (1, 2, 3)}, ShapeError), ({"depth": 1.5}, ArgumentTypeError),
                         ({"multiple": 0}, ArgumentError), ({"dtype": "floaty"}, ArgumentTypeError)):
        with pytest.raises(error):
            chunked.chunks(**{"shape": (90, 90), "dtype": "uint8", **wrong})
