"""Images in files, filtered chunk by chunk: zarr and TIFF, and what stops half-way."""

from __future__ import annotations

import errno
import itertools
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest

from tests import checks, settings
from warpconv.codegen.border import Border
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, FileError

for name in ("dask.array", "distributed", "zarr", "tifffile"):
    pytest.importorskip(name, reason=f"{name} is not installed (extras dask and image)")
ndimage = pytest.importorskip("scipy.ndimage", reason="scipy is not installed (it is in the test extra)")

import tifffile                                                         # noqa: E402 - behind the skips
import zarr                                                             # noqa: E402
from warpconv.runtime.scale.files import FileFilter, _chunks, filter_file, plan  # noqa: E402
from warpconv.runtime.scale.outputs import Part                         # noqa: E402
from warpconv.runtime.scale.sources import Source                       # noqa: E402

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
TAPS = np.array([[1.0, -2, 3, 4], [5, 6, -7, 8], [-9, 1, 2, 3]]) / 16
SMALL = {"memory": 150_000, "threads": 2, "device": "cpu", "taps": TAPS, "algorithm": "direct"}    # 64 x 64 a chunk


def pixels(*shape, dtype="uint8"):
    return settings.generator(51).integers(0, 250, shape, dtype) if dtype.startswith("u") else \
        settings.generator(51).standard_normal(shape).astype(dtype)


def written(path, x, chunks=(64, 64), **options):
    array = zarr.create_array(str(path), shape=x.shape, chunks=chunks, dtype=x.dtype, **options)
    array[:] = x
    return str(path)


def expected(x, axes=(0, 1), mode="mirror"):
    """Exact values, rounded to nearest and limited; even sizes lean as conv2d's "same" does."""
    shape = [1] * x.ndim
    shape[axes[0]], shape[axes[1]] = TAPS.shape
    origin = [(n - 1) // 2 - n // 2 for n in shape]
    taps = TAPS if axes[0] < axes[1] else TAPS.T
    exact = ndimage.correlate(x.astype(np.float64), taps.reshape(shape), mode=mode, origin=origin)
    return exact if x.dtype.kind == "f" else np.clip(np.rint(exact), 0, np.iinfo(x.dtype).max)


def test_zarr_to_zarr(tmp_path):
    x, told = pixels(150, 200), []
    done = filter_file(FileFilter(input=written(tmp_path / "a.zarr", x, dimension_names=("y", "x")),
                                  output=str(tmp_path / "b.zarr"), border=Border.CIRCULAR, **SMALL),
                       lambda *each: told.append(each))
    made = zarr.open_array(str(tmp_path / "b.zarr"), mode="r")
    assert np.array_equal(made[:], expected(x, mode="wrap"))        # weights of sixteenths: sums are exact
    assert made.dtype == np.uint8 and made.chunks == (64, 64) and made.metadata.dimension_names == ("y", "x")
    assert done.chunks > 4 and done.resumed == 0 and told == [(n, done.chunks) for n in range(done.chunks + 1)]
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.zarr"]


def test_packed_tiff_of_colours_to_tiled_tiff(tmp_path):
    x = pixels(300, 280, 3, dtype="uint16")
    tifffile.imwrite(tmp_path / "a.tif", x, photometric="rgb", tile=(64, 64), compression="zlib", resolution=(300, 300),
                     resolutionunit="INCH")
    done = filter_file(FileFilter(input=str(tmp_path / "a.tif"), output=str(tmp_path / "b.tif"),
                                  **{**SMALL, "memory": "5M"}))
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        page = file.pages[0]
        assert (page.is_tiled, page.photometric.name, page.tags[282].value) == (True, "RGB", (300, 1))
        assert np.array_equal(page.asarray(), expected(x))
    assert done.chunks == 2


@pytest.mark.thin(2)
@pytest.mark.parametrize("border, value, parts", [(Border.REFLECT, 0.0, 2), (Border.CONSTANT, 9.0, 1)])
def test_a_large_filter_is_done_as_column_and_row_where_that_is_the_same(tmp_path, border, value, parts):
    x, column, row = pixels(70, 90), np.linspace(0.1, 1, 12), np.linspace(1, 0.3, 14) ** 2
    taps = np.outer(column, row) / 40
    passes = plan(None, None, taps, (0, 1), border, value, ())
    assert len(passes.terms[0][0].lines) == (2 if parts == 2 else 0)
    filter_file(FileFilter(input=written(tmp_path / "a.zarr", x), output=str(tmp_path / "b.zarr"), device="cpu",
                           border=border, border_value=value, taps=taps, memory="1M"))
    mode = {"mode": "mirror"} if border is Border.REFLECT else {"mode": "constant", "cval": value}
    exact = np.clip(ndimage.correlate(x.astype(float), taps, origin=(-1, -1), **mode), 0, 255)
    assert np.abs(zarr.open_array(str(tmp_path / "b.zarr"), mode="r")[:] - exact).max() < 0.501


def test_without_a_filter_chunks_are_copied(tmp_path):
    x = pixels(130, 90)
    filter_file(FileFilter(input=written(tmp_path / "a.zarr", x), output=str(tmp_path / "b.tif"),
                           **{**SMALL, "taps": None, "memory": "2M"}))
    assert np.array_equal(tifffile.imread(tmp_path / "b.tif"), x)


def test_a_stack_of_floats_in_one_piece_and_other_axes(tmp_path):
    x = pixels(3, 90, 110, dtype="float32")
    tifffile.imwrite(tmp_path / "a.tif", x, photometric="minisblack", metadata={"axes": "ZYX"})
    filter_file(FileFilter(input=str(tmp_path / "a.tif"), output=str(tmp_path / "b.tif"), **{**SMALL, "memory": "9M"}))
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        assert file.series[0].axes == "ZYX"
        assert np.abs(file.asarray() - expected(x, (1, 2))).max() < 1e-5
    source = written(tmp_path / "c.zarr", x.transpose(2, 0, 1), chunks=(50, 3, 40))
    filter_file(FileFilter(input=source, output=str(tmp_path / "d.zarr"), axes=(2, 0), **{**SMALL, "memory": "1M"}))
    made = zarr.open_array(str(tmp_path / "d.zarr"), mode="r")[:]
    assert np.abs(made.transpose(1, 2, 0) - expected(x, (1, 2))).max() < 1e-5


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_blank_chunks_are_not_stored(tmp_path, dtype):
    """As zarr leaves them out; a negative zero has a bit, and one pixel is enough."""
    x = np.zeros((150, 200), dtype)
    x[70, 199] = -0.0 if dtype == "float32" else 1
    x[0, :64] = 9
    filter_file(FileFilter(input=written(tmp_path / "a.zarr", x), output=str(tmp_path / "b.zarr"),
                           **{**SMALL, "taps": None, "memory": "4M"}))
    made = zarr.open_array(str(tmp_path / "b.zarr"), mode="r")[:]
    assert np.array_equal(made.view("uint8"), x.view("uint8"))
    folder = tmp_path / "b.zarr" / "c"
    assert sorted(f"{path.parent.name}-{path.name}" for path in folder.glob("*/*")) == ["0-0", "1-3"]


def test_threads_have_several_chunks_each_unless_these_are_small(tmp_path):
    source = Source(written(tmp_path / "a.zarr", np.zeros((1, 1), "uint8")))
    source.shape, source.about = (20_000, 20_000), replace(source.about, shape=(20_000, 20_000), stored=(1024, 1024))
    how = FileFilter(input="a.zarr", output="b.zarr", taps=TAPS, memory="8G")
    for threads, sizes in ((1, (10_240, 10_240)), (8, (3072, 3072)), (64, (2048, 2048))):
        chunks = _chunks(replace(how, threads=threads), source)
        assert max(chunks[0]) == sizes[0] and max(chunks[1]) == sizes[1]
        assert all(map(sum, chunks)) and sum(chunks[0]) == 20_000 and all(size % 1024 == 0 for size in chunks[0][:-1])
    assert len(chunks[0]) * len(chunks[1]) == 100       # not the 256 of which each would be less than 4 MB


class Full:
    """An array on a disk that is full after some chunks."""

    def __init__(self, array, room):
        self.array, self.room, self.chunks = array, room, array.chunks

    def __setitem__(self, region, block):
        if next(self.room) >= 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.array[region] = block


def test_a_full_disk_is_told_and_the_same_call_goes_on(tmp_path, monkeypatch):
    x, room = pixels(150, 200), itertools.count()
    how = FileFilter(input=written(tmp_path / "a.zarr", x), output=written(tmp_path / "b.zarr", x[::-1]),
                     **{**SMALL, "threads": 1, "memory": 75_000})        # nothing else is under way when it fails
    opened = Part._opened
    with monkeypatch.context() as patch:
        patch.setattr(Part, "_opened", lambda self: (Full(opened(self)[0], room), None))
        with pytest.raises(FileError, match="the disk is full") as caught:
            filter_file(how)
    assert caught.value.argument == "OUTPUT" and "same command again" in caught.value.hint
    assert np.array_equal(zarr.open_array(how.output, mode="r")[:], x[::-1])     # the older one is there until then
    done = filter_file(how)
    assert done.resumed == 3
    assert np.array_equal(zarr.open_array(how.output, mode="r")[:], expected(x))
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.zarr"]


def test_an_unreadable_chunk_is_named_and_the_others_are_kept(tmp_path):
    x = pixels(150, 200)
    source = written(tmp_path / "a.zarr", x)
    broken = tmp_path / "a.zarr" / "c" / "2" / "3"
    whole = broken.read_bytes()
    broken.write_bytes(b"no zstd")
    how = FileFilter(input=source, output=str(tmp_path / "b.zarr"), **{**SMALL, "threads": 1, "memory": 75_000})
    with pytest.raises(FileError, match=r"the pixels \[128:150, 128:200\] cannot be read") as caught:
        filter_file(how)
    assert caught.value.argument == "PHOTO" and not os.path.exists(how.output)
    broken.write_bytes(whole)
    assert filter_file(how).resumed > 0
    assert np.array_equal(zarr.open_array(how.output, mode="r")[:], expected(x))


def test_what_was_begun_otherwise_is_not_continued(tmp_path, monkeypatch):
    x, room = pixels(150, 200), itertools.count()
    how = FileFilter(input=written(tmp_path / "a.zarr", x), output=str(tmp_path / "b.zarr"), **SMALL)
    opened = Part._opened
    with monkeypatch.context() as patch:
        patch.setattr(Part, "_opened", lambda self: (Full(opened(self)[0], room), None))
        with pytest.raises(FileError):
            filter_file(FileFilter(**{**vars(how), "taps": TAPS[::-1]}))
    done = filter_file(how)
    assert done.resumed == 0
    assert np.array_equal(zarr.open_array(how.output, mode="r")[:], expected(x))


def test_only_one_process_writes_an_output(tmp_path):
    how = FileFilter(input=written(tmp_path / "a.zarr", pixels(70, 70)), output=str(tmp_path / "b.zarr"), **SMALL)
    with Part(how.output).held(), pytest.raises(FileError, match="another process is writing"):
        filter_file(how)
    filter_file(how)


def test_refusals_name_the_argument_and_write_nothing(tmp_path):
    x = pixels(70, 70)
    source = written(tmp_path / "a.zarr", x)
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.tif").write_text("no TIFF")
    zarr.create_group(str(tmp_path / "g.zarr")).create_array("0", shape=(8, 8), dtype="uint8")
    tifffile.imwrite(tmp_path / "alpha.tif", pixels(8, 8, 4), photometric="rgb", extrasamples=["unassalpha"])
    written(tmp_path / "wide.zarr", x.astype("int32"))
    before = sorted(os.listdir(tmp_path))
    for wrong, error, match in (
            ({"output": str(tmp_path / "o.png")}, ArgumentError, "written as zarr or TIFF"),
            ({"output": source}, FileError, "also an input"),
            ({"output": str(tmp_path / "folder")}, ArgumentError, "zarr"),
            ({"output": str(tmp_path / "no" / "o.zarr")}, FileError, "folder does not exist"),
            ({"input": str(tmp_path / "text.tif")}, FileError, "cannot be read"),
            ({"input": str(tmp_path / "g.zarr")}, ArgumentError, "is a group"),
            ({"input": str(tmp_path / "alpha.tif")}, ArgumentError, "1 further samples"),
            ({"input": str(tmp_path / "nothing.zarr")}, FileError, "no such file"),
            ({"input": str(tmp_path / "wide.zarr"), "memory": "1M"}, ArgumentTypeError, "no kernel reads int32"),
            ({"memory": 1000}, ArgumentError, "so little memory"), ({"axes": (0, 2)}, ArgumentError, "has 2 axes")):
        with pytest.raises(error, match=match):
            filter_file(FileFilter(**{"input": source, "output": str(tmp_path / "o.zarr"), **SMALL, **wrong}))
        assert sorted(os.listdir(tmp_path)) == before


def test_files_are_opened_where_they_are_read(tmp_path):
    x = pixels(70, 90)
    source = Source(written(tmp_path / "a.zarr", x))
    again = pickle.loads(pickle.dumps(source))
    assert np.array_equal(again[10:20, 5:9], x[10:20, 5:9])
