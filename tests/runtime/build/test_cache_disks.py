"""A cache whose disk cannot be written, is full or has no locks: used all the same, and told once."""

import errno
import logging
import os
import warnings
from pathlib import Path

import pytest

from tests.runtime.build.test_cache import KEY, build, disk, never  # noqa: F401
from warpconv.codegen.errors import FileError
from warpconv.runtime.build import cache
from warpconv.runtime.build.cache import CacheKey, DiskCache


@pytest.fixture
def unwarned(monkeypatch):
    monkeypatch.setattr(cache, "_warned", set())


def assert_degrades_once(disk, caplog):
    """One warning, one log line, usable entries, and no second build of the same key."""
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.WARNING, "warpconv.cache"):
        warnings.simplefilter("always")
        first = disk.fetch(KEY, build)
        second = disk.fetch(CacheKey("other", KEY.fields), build)
    assert [str(w.message) for w in caught if "WARPCONV_CACHE_DIR" in str(w.message)] == caplog.messages
    assert len(caplog.messages) == 1 and str(disk.root) in caplog.messages[0]
    for found in (first, second):
        assert found.path.is_dir() and not found.path.is_relative_to(disk.root)
        assert (found.path / "kernel.cubin").read_bytes() == found.read("kernel.cubin")
    assert DiskCache(disk.root).fetch(KEY, never) == first == disk.find(KEY)


def test_a_root_that_cannot_be_made(tmp_path, caplog, unwarned):
    (tmp_path / "file").write_text("in the way")
    assert_degrades_once(DiskCache(tmp_path / "file" / "cache"), caplog)


def test_a_read_only_root(tmp_path, caplog, unwarned, monkeypatch):
    def read_only(self, *args, **kwargs):
        if self.is_relative_to(tmp_path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))
        real(self, *args, **kwargs)

    disk, kept = DiskCache(tmp_path), CacheKey("kept", KEY.fields)
    disk.fetch(kept, build)
    real = Path.mkdir
    monkeypatch.setattr(Path, "mkdir", read_only)
    assert disk.fetch(kept, never).path.is_relative_to(tmp_path)        # what is there can still be read
    assert_degrades_once(disk, caplog)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write where mode bits forbid it")
def test_a_root_without_write_permission(tmp_path, caplog, unwarned):
    root = tmp_path / "cache"
    root.mkdir(mode=0o500)
    assert_degrades_once(DiskCache(root), caplog)


@pytest.mark.parametrize("when", ["build", "seal", "rename"])
def test_a_full_disk(tmp_path, caplog, unwarned, monkeypatch, when):
    """ENOSPC at each step that writes; the temporary directory is on another disk."""
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def failing(real):
        def wrapper(path, *args, **kwargs):
            if Path(path).is_relative_to(tmp_path):
                raise full
            return real(path, *args, **kwargs)
        return wrapper

    if when == "build":
        monkeypatch.setattr(f"{__name__}.build", failing(build))
    elif when == "seal":
        monkeypatch.setattr(cache, "seal", failing(cache.seal))
    else:
        monkeypatch.setattr(os, "rename", failing(os.rename))
    disk = DiskCache(tmp_path / "cache")
    assert_degrades_once(disk, caplog)
    assert disk.entries() == [] and list((disk.root / "tmp").iterdir()) == []


def test_no_disk_at_all_is_told(tmp_path, unwarned):
    def full(directory):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.warns(RuntimeWarning), pytest.raises(FileError, match="TMPDIR"):
        DiskCache(tmp_path).fetch(KEY, full)


def test_a_lock_that_cannot_be_had_does_not_stop_the_build(disk):
    disk.root.mkdir()
    (disk.root / "locks").write_text("in the way")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert disk.fetch(KEY, build).path.is_relative_to(disk.root)


def test_a_disabled_cache_keeps_nothing(tmp_path):
    disk = DiskCache(tmp_path / "cache", enabled=False)
    one, two = disk.fetch(KEY, build), disk.fetch(KEY, build)
    assert one.path != two.path and one.path.is_dir() and two.read("kernel.cu")
    assert disk.find(KEY) is None and not disk.root.exists()
