"""``warpconv filter`` of zarr arrays and TIFF in chunks."""

from __future__ import annotations

import io
import json
import os

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from tests import checks, settings
from warpconv.cli import cli
from warpconv.commands import filter_large
from warpconv.filters import weights

for name in ("dask.array", "zarr", "tifffile"):
    pytest.importorskip(name, reason=f"{name} is not installed (extras dask and image)")

import tifffile                         # noqa: E402 - behind the skips
import zarr                             # noqa: E402

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


def run(*arguments):
    return CliRunner().invoke(cli, ["filter", *map(str, arguments), "--device", "cpu"])


@pytest.fixture
def big(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)         # so many chunks at a time share --memory
    x = settings.generator(71).integers(0, 256, (130, 150), "uint8")
    zarr.create_array(str(tmp_path / "big.zarr"), shape=x.shape, chunks=(64, 64), dtype=x.dtype)[:] = x
    return x


@pytest.mark.long
def test_a_zarr_array_is_filtered_as_a_picture_is(tmp_path, big):
    options = ("--kernel", "sobel-x", "--scale", -0.5, "--offset", 30, "--abs", "--border", "symmetric")
    tifffile.imwrite(tmp_path / "a.tif", big, photometric="minisblack")
    assert run(tmp_path / "a.tif", tmp_path / "b.tif", *options).exit_code == 0
    done = run(tmp_path / "big.zarr", tmp_path / "out.zarr", *options, "--memory", "60k")
    assert done.exit_code == 0, done.output
    assert "130x150 uint8 (19.5 kB) to uint8" in done.stdout and "to uint8, chunks: 9 of 64x64" in done.stdout
    made = zarr.open_array(str(tmp_path / "out.zarr"), mode="r")[:]
    assert np.array_equal(made, tifffile.imread(tmp_path / "b.tif"))
    again = run(tmp_path / "a.tif", tmp_path / "c.tif", *options, "--memory", "1M", "--json")     # asked for
    assert json.loads(again.stdout)["kernel"] == "sobel-x"
    with tifffile.TiffFile(tmp_path / "c.tif") as file:
        assert file.pages[0].is_tiled and np.array_equal(file.asarray(), made)


def test_a_large_tiff_goes_by_chunks_and_what_needs_all_of_it_is_refused(tmp_path, big, monkeypatch):
    tifffile.imwrite(tmp_path / "a.tif", big, photometric="minisblack")
    monkeypatch.setattr(filter_large, "LARGE", big.nbytes)
    done = run(tmp_path / "a.tif", tmp_path / "b.tif", "--kernel", "box:3", "--dtype", "float32", "--json")
    record = json.loads(done.stdout)
    assert record["shape"] == [130, 150] and record["stored_as"] == "float32" and record["resumed"] == 0
    for option in (("--sheet", "s.png"), ("--quality", 9), ("--format", "tif"), ("--kernel", "box:5"), ("-r",)):
        refused = run(tmp_path / "a.tif", tmp_path / "c.tif", "--kernel", "box:3", *option)
        assert refused.exit_code == 2 and ("whole picture" in refused.stderr or "one filter" in refused.stderr)
    assert not os.path.exists(tmp_path / "c.tif")


def test_a_terminal_has_a_bar_and_a_pipe_none(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")         # dumb ones have no bar
    text = io.StringIO()
    monkeypatch.setattr(filter_large, "console", lambda stderr: Console(file=text, force_terminal=True, width=80))
    with filter_large._progress(False) as advance:
        advance(3, 8)
    assert "3/8" in text.getvalue() and "chunks" in text.getvalue()
    with filter_large._progress(True) as advance:
        assert advance is None
    monkeypatch.setattr(filter_large, "console", lambda stderr: Console(file=text, force_terminal=False))
    with filter_large._progress(False) as advance:
        assert advance is None


def test_errors_are_in_the_command_line_s_words(tmp_path, big):
    np.save(tmp_path / "w.npy", weights("box:3"))
    for arguments, words in (
            ((tmp_path / "big.zarr", tmp_path / "o.zarr", "--memory", "9"), "(--memory = '9')"),
            ((tmp_path / "big.zarr", tmp_path / "o.zarr", "--memory", "much"), "(--memory = 'much')"),
            ((tmp_path / "big.zarr", tmp_path / "o.zarr", "--axes", "0,7"), "(--axes = (0, 7))"),
            ((tmp_path / "big.zarr", tmp_path / "o.zarr", "--axes", "a"), "(--axes = 'a')"),
            ((tmp_path / "big.zarr", tmp_path / "o.jpg"), "(OUTPUT = "),
            ((tmp_path / "no.zarr", tmp_path / "o.zarr"), "(PHOTO = "),
            ((tmp_path / "big.zarr", tmp_path / "no" / "o.zarr"), "(OUTPUT = "),
            ((tmp_path / "big.zarr", tmp_path / "w.npy", tmp_path / "o.zarr"), "one by one"),
            ((tmp_path / "a.jpg", tmp_path / "b.jpg", "--workers", "2"), "(--workers = 2)")):
        refused = run(*arguments, "--kernel", tmp_path / "w.npy")
        assert refused.exit_code == 2 and words in refused.stderr, refused.output
    assert sorted(os.listdir(tmp_path)) == ["big.zarr", "w.npy"]
