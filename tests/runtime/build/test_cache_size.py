"""The disk cache is bounded: what was used longest ago goes first; builders at work are left alone."""

import os
import shutil
import time

import pytest
from click.testing import CliRunner

from tests.runtime.build.test_cache import KEY, build, disk, never  # noqa: F401
from warpconv.cli import cli
from warpconv.codegen.errors import CompileError
from warpconv.runtime import env
from warpconv.runtime.build import cache, cache_disk
from warpconv.runtime.build.cache import CacheKey, DiskCache

KIB = 1 << 10


def sized(name, size):
    """A key and a builder of an entry of that size."""
    def write(directory):
        (directory / "kernel.cubin").write_bytes(bytes(size))
        return {}
    return CacheKey(name, KEY.fields), write


def fill(disk, used):
    """Entries of 10 KiB, each last used so many seconds ago."""
    for name, seconds in used.items():
        path = disk.fetch(*sized(name, 10 * KIB)).path
        then = time.time() - seconds
        os.utime(path / "meta.json", (then, then))


def names(disk):
    return {row.name for row in disk.entries()}


def test_trim_removes_what_was_used_longest_ago(disk):
    fill(disk, {"old": 90_000, "older": 180_000, "new": 10})
    done = disk.trim(25 * KIB)
    assert names(disk) == {"old", "new"} and done.removed == 1 and done.freed > 10 * KIB
    assert done.left == sum(row.size for row in disk.entries()) <= 25 * KIB
    assert disk.trim(25 * KIB).removed == 0 and disk.trim(0).removed == 2 and disk.entries() == []


def test_a_hit_is_a_use(disk):
    fill(disk, {"old": 90_000, "older": 180_000})
    assert disk.fetch(sized("older", 0)[0], never)
    disk.trim(15 * KIB)
    assert names(disk) == {"older"}


def test_publishing_keeps_within_the_limit(disk, monkeypatch):
    monkeypatch.setattr(cache, "_added", {})
    with env.scope(cache_limit="100K"):
        for number in range(30):
            fill(disk, {f"entry{number}": 100_000 - number * 3600})
    rows = disk.entries()
    assert sum(row.size for row in rows) <= 110 * KIB and {"entry29", "entry28"} <= names(disk)
    assert "entry0" not in names(disk)


def test_no_limit(disk, monkeypatch):
    monkeypatch.setattr(cache, "_added", {})
    monkeypatch.setattr(cache_disk, "trim", None)
    with env.scope(cache_limit=0):
        fill(disk, {"one": 1, "two": 2})
    assert names(disk) == {"one", "two"}


def test_locks_and_refused_sources_are_bounded(disk):
    fill(disk, {"kept": 10})
    locks, failed = disk.root / "locks", disk.root / "failed"
    failed.mkdir()
    stale = time.time() - 2 * cache_disk.STALE_SECONDS
    for number in range(cache_disk.MOST_FAILED + 20):
        (failed / f"{number:03}.cu").write_text("")
        os.utime(failed / f"{number:03}.cu", (stale - number, stale - number))
    (locks / "gone-00.lock").write_text("")
    for lock in locks.iterdir():
        os.utime(lock, (stale, stale))
    disk.trim(1 << 30)
    assert sorted(path.name for path in failed.iterdir()) == [f"{n:03}.cu" for n in range(cache_disk.MOST_FAILED)]
    assert [path.name for path in locks.iterdir()] == [f"{sized('kept', 0)[0].directory}.lock"]


def test_the_command(disk):
    fill(disk, {"old": 90_000, "new": 10})
    with env.scope(cache_dir=disk.root):
        done = CliRunner().invoke(cli, ["cache", "trim", "--size", "15K"])
        assert done.exit_code == 0 and done.output.startswith("removed 1 entry, ") and names(disk) == {"new"}
        assert CliRunner().invoke(cli, ["cache", "trim"]).output.startswith("removed 0 entries")
        bad = CliRunner().invoke(cli, ["cache", "trim", "--size", "much"])
        assert bad.exit_code == 2 and "--size" in bad.output


# ---- builders at work

def aged(path):
    then = time.time() - 2 * cache_disk.STALE_SECONDS
    os.utime(path, (then, then))


@pytest.mark.skipif(cache_disk.fcntl is None, reason="folders cannot be locked here")
def test_a_builder_at_work_is_not_swept_whatever_its_age(disk):
    """A machine that slept, or a clock that jumped, makes a folder look hours old."""
    def build_slowly(directory):
        aged(directory)
        DiskCache(disk.root).clear()                    # sweeps
        assert directory.is_dir()
        return build(directory)

    orphan = disk.root / "tmp" / f"orphan-{0:032x}"
    orphan.mkdir(parents=True)
    aged(orphan)
    assert disk.fetch(KEY, build_slowly).path.is_relative_to(disk.root)
    assert not orphan.exists()


@pytest.mark.parametrize("error", [None, CompileError("the folder went", source="", options=(), log="")])
def test_a_builder_whose_folder_is_removed_builds_again(disk, error):
    """Somebody removes the whole cache while a kernel is compiled."""
    attempts = []

    def unlucky(directory):
        attempts.append(directory)
        meta = build(directory)
        if len(attempts) == 1:
            shutil.rmtree(disk.root)
            if error is not None:
                raise error
        return meta

    assert disk.fetch(KEY, unlucky).path == disk.root / "entries" / KEY.directory
    assert len(attempts) == 2 and disk.fetch(KEY, never)


def test_an_entry_removed_as_soon_as_it_is_there_is_used(disk, monkeypatch):
    """``cache clear`` in another process, at the worst moment: the bytes are in memory."""
    monkeypatch.setattr(cache, "sync", lambda folder: shutil.rmtree(disk.root))
    assert disk.fetch(KEY, build).read("kernel.cubin") == b"\x7fELF cubin"
