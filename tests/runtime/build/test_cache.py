"""The disk cache: built once, whole or not at all, and never a crash."""

import concurrent.futures
import json
import multiprocessing
import os
import shutil
import signal
import time
import warnings

import pytest

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, CompileError, FileError, ToolNotFound
from warpconv.runtime import env
from warpconv.runtime.build import cache, cache_disk, entry
from warpconv.runtime.build.cache import CacheKey, DiskCache, load_entry

KEY = CacheKey("reuse_5x5", (("arch", "sm_90"), ("plan", "abc"), ("options", "-lineinfo")))
SPAWN = multiprocessing.get_context("spawn")


def build(directory):
    (directory / "kernel.cu").write_text("// source\n")
    (directory / "kernel.cubin").write_bytes(b"\x7fELF cubin")
    return {"registers": 32, "options": ("-a", "-b")}


def never(directory):
    raise AssertionError("a hit must not build")


@pytest.fixture
def disk(tmp_path):
    return DiskCache(tmp_path / "cache")


# ---- keys

def test_key_has_a_readable_directory():
    assert KEY.directory == f"reuse_5x5-{KEY.digest}"
    assert len(KEY.digest) == 32 and int(KEY.digest, 16) >= 0


def test_perturbing_anything_changes_the_digest(monkeypatch):
    digests = {KEY.digest, CacheKey("reuse_5x6", KEY.fields).digest}
    for i, (name, value) in enumerate(KEY.fields):
        for pair in ((name, value + " "), (name + "x", value)):
            digests.add(CacheKey(KEY.name, (*KEY.fields[:i], pair, *KEY.fields[i + 1:])).digest)
        digests.add(CacheKey(KEY.name, KEY.fields[:i] + KEY.fields[i + 1:]).digest)
    assert len(digests) == 2 + 3 * len(KEY.fields)
    before = KEY.digest
    monkeypatch.setattr(entry, "SCHEMA", entry.SCHEMA + 1)
    assert KEY.digest != before


def test_digest_does_not_depend_on_the_order_of_fields():
    assert CacheKey(KEY.name, KEY.fields[::-1]).digest == KEY.digest


def test_fields_cannot_run_into_each_other():
    assert CacheKey("k", (("a", "b"), ("c", "d"))).digest != CacheKey("k", (("a", 'b","c":"d'),)).digest


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "-x", "a b", "x" * 200])
def test_names_that_are_no_file_names_are_refused(name):
    with pytest.raises(ArgumentError):
        CacheKey(name, ())


def test_fields_must_be_distinct_text():
    with pytest.raises(ArgumentError, match="twice"):
        CacheKey("k", (("a", "1"), ("a", "2")))
    with pytest.raises(ArgumentTypeError):
        CacheKey("k", (("a", 1),))


# ---- build and read

def test_fetch_builds_then_finds(disk):
    assert disk.find(KEY) is None
    built = disk.fetch(KEY, build)
    found = disk.fetch(KEY, never)
    assert found == built == disk.find(KEY)
    assert found.key == KEY.directory and found.meta == {"registers": 32, "options": ["-a", "-b"]}
    assert found.read("kernel.cubin") == (found.path / "kernel.cubin").read_bytes() == b"\x7fELF cubin"
    assert sorted(path.name for path in found.path.iterdir()) == ["kernel.cu", "kernel.cubin", "meta.json"]
    assert list((disk.root / "tmp").iterdir()) == []


def test_reading_a_file_that_is_not_there(disk):
    with pytest.raises(FileError, match="kernel.cu, kernel.cubin"):
        disk.fetch(KEY, build).read("kernel.ptx")


def test_root_comes_from_the_environment(tmp_path):
    with env.scope(cache_dir=tmp_path / "elsewhere"):
        assert DiskCache().root == tmp_path / "elsewhere"


def test_an_entry_outlives_its_directory(disk):
    found = disk.fetch(KEY, build)
    disk.clear()
    assert found.read("kernel.cubin") == b"\x7fELF cubin"


@pytest.mark.parametrize("error", [CompileError("no", source="", options=(), log=""), ToolNotFound("none"),
                                   RuntimeError("x"), KeyboardInterrupt()])
def test_errors_of_the_build_pass_and_leave_nothing(disk, error):
    def fail(directory):
        (directory / "kernel.cu").write_text("half")
        raise error

    with warnings.catch_warnings():
        warnings.simplefilter("error")              # ToolNotFound is an OSError, but not the disk's fault
        with pytest.raises(type(error)):
            disk.fetch(KEY, fail)
    assert disk.find(KEY) is None and disk.entries() == []
    assert list((disk.root / "tmp").iterdir()) == []
    assert disk.fetch(KEY, build).read("kernel.cu")


@pytest.mark.parametrize("make", [lambda d: (d / "meta.json").write_text("{}"), lambda d: (d / "folder").mkdir(),
                                  lambda d: (d / "link").symlink_to("/etc/hostname")])
def test_only_plain_files_make_an_entry(disk, make):
    with pytest.raises(ArgumentError):
        disk.fetch(KEY, lambda directory: make(directory) or {})
    assert disk.entries() == []


# ---- defects

def edit(change):
    def apply(path):
        document = json.loads((path / "meta.json").read_text())
        change(document)
        (path / "meta.json").write_text(json.dumps(document))
    return apply


def resealed(change):
    """A change to meta.json whose own checksum fits again."""
    def apply(path):
        document = json.loads((path / "meta.json").read_text())
        document.pop("checksum")
        change(document)
        document["checksum"] = entry.digest_of(document)
        (path / "meta.json").write_text(json.dumps(document))
    return apply


def flip(name, position):
    def apply(path):
        data = bytearray((path / name).read_bytes())
        data[position] ^= 1
        (path / name).write_bytes(bytes(data))
    return apply


def replace_by_file(path):
    shutil.rmtree(path)
    path.write_text("not a directory")


DEFECTS = {
    "torn cubin": lambda path: (path / "kernel.cubin").write_bytes(b"\x7fE"),
    "empty cubin": lambda path: (path / "kernel.cubin").write_bytes(b""),
    "flipped cubin": flip("kernel.cubin", 4),
    "no cubin": lambda path: (path / "kernel.cubin").unlink(),
    "cubin is a folder": lambda path: ((path / "kernel.cubin").unlink(), (path / "kernel.cubin").mkdir()),
    "no meta": lambda path: (path / "meta.json").unlink(),
    "empty meta": lambda path: (path / "meta.json").write_text(""),
    "torn meta": lambda path: (path / "meta.json").write_text((path / "meta.json").read_text()[:50]),
    "binary meta": lambda path: (path / "meta.json").write_bytes(b"\xff\xfe\x00"),
    "nested meta": lambda path: (path / "meta.json").write_text("[" * 100000),
    "meta is a list": lambda path: (path / "meta.json").write_text("[1]"),
    "flipped meta": flip("meta.json", -20),
    "other schema": edit(lambda document: document.update(schema=99)),
    "other registers": edit(lambda document: document["meta"].update(registers=31)),
    "no checksum": edit(lambda document: document.pop("checksum")),
    "no files": resealed(lambda document: document.pop("files")),
    "files is a list": resealed(lambda document: document.update(files=["kernel.cubin"])),
    "foreign path": resealed(lambda document: document["files"].update({"../../x": {"size": 0}})),
    "NUL in a name": resealed(lambda document: document["files"].update({"a\0b": {"size": 0}})),
    "another entry's": resealed(lambda document: document.update(directory="other-00")),
    "empty directory": lambda path: [file.unlink() for file in path.iterdir()],
    "a file": replace_by_file,
}


@pytest.mark.parametrize("damage", DEFECTS.values(), ids=DEFECTS.keys())
def test_every_defect_is_a_miss_and_is_repaired(disk, damage):
    path = disk.fetch(KEY, build).path
    damage(path)
    assert disk.find(KEY) is None
    if path.is_dir():
        [(name, problem)] = disk.verify()
        assert name == KEY.directory and problem
    assert disk.fetch(KEY, build).path == path
    assert disk.find(KEY) is not None and disk.verify() == [(KEY.directory, None)]
    assert list((disk.root / "tmp").iterdir()) == []


def test_load_entry_tells_the_reason(disk):
    path = disk.fetch(KEY, build).path
    (path / "kernel.cubin").write_bytes(b"torn")
    with pytest.raises(cache.Defect, match="kernel.cubin: its checksum differs"):
        load_entry(path)


# ---- listing and clearing

def test_entries_and_clear(disk):
    other = CacheKey("direct_3x3", KEY.fields)
    disk.fetch(KEY, build)
    disk.fetch(other, build)
    rows = disk.entries()
    assert [row.name for row in rows] == ["direct_3x3", "reuse_5x5"]
    assert all(row.size > 100 and abs(row.mtime - time.time()) < 60 and row.meta["registers"] == 32 for row in rows)
    assert disk.clear("nothing") == 0
    assert disk.clear("direct_") == 1 and disk.find(other) is None and disk.find(KEY) is not None
    assert disk.clear("reuse_?x5-*") == 1 and disk.entries() == []
    disk.fetch(KEY, build)
    assert disk.clear() == 1 and disk.clear() == 0


def test_listing_an_absent_or_damaged_cache(disk):
    assert disk.entries() == [] and disk.verify() == [] and disk.clear() == 0
    path = disk.fetch(KEY, build).path
    (path / "meta.json").write_text("{")
    assert [(row.key, row.meta) for row in disk.entries()] == [(KEY.directory, {})]
    assert disk.clear() == 1


# ---- processes

def count_and_build(log):
    def counted(directory):
        with open(log, "a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(0.3)                     # long enough for the others to arrive
        return build(directory)
    return counted


def fetch_in_child(root, log, barrier, results, use_lock=True):
    if not use_lock:
        cache.LOCK_SECONDS = 0.0            # as if locking failed: each goes on without
    barrier.wait(60)
    found = DiskCache(root).fetch(KEY, count_and_build(log))
    results.put((str(found.path), found.read("kernel.cubin")))


def run_children(root, log, *args, count=6):
    barrier, results = SPAWN.Barrier(count), SPAWN.Queue()
    children = [SPAWN.Process(target=fetch_in_child, args=(root, log, barrier, results, *args)) for _ in range(count)]
    for child in children:
        child.start()
    found = [results.get(timeout=60) for _ in children]
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    return found


@pytest.mark.thin(2)
@pytest.mark.parametrize("damaged", [False, True])
def test_six_processes_build_once(tmp_path, damaged):
    disk = DiskCache(tmp_path / "cache")
    if damaged:
        (disk.fetch(KEY, build).path / "kernel.cubin").write_bytes(b"torn")
    found = run_children(disk.root, tmp_path / "log")
    assert len((tmp_path / "log").read_text().split()) == 1
    assert set(found) == {(str(disk.root / "entries" / KEY.directory), b"\x7fELF cubin")}


@pytest.mark.long
def test_renaming_alone_is_safe_where_locks_fail(tmp_path):
    root = tmp_path / "cache"
    found = run_children(root, tmp_path / "log", False)
    assert 1 <= len((tmp_path / "log").read_text().split()) <= 6
    assert set(found) == {(str(root / "entries" / KEY.directory), b"\x7fELF cubin")}
    assert list((root / "tmp").iterdir()) == []


def test_eight_threads_build_once(tmp_path):
    disk = DiskCache(tmp_path / "cache")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: disk.fetch(KEY, count_and_build(tmp_path / "log")), range(8)))
    assert all(one == found[0] for one in found)
    assert len((tmp_path / "log").read_text().split()) == 1


def build_for_ever(root, started):
    def stuck(directory):
        (directory / "kernel.cubin").write_bytes(b"half")
        started.set()
        time.sleep(600)
    DiskCache(root).fetch(KEY, stuck)


def test_a_killed_builder_leaves_no_entry_and_no_lock(tmp_path, monkeypatch):
    disk, started = DiskCache(tmp_path / "cache"), SPAWN.Event()
    child = SPAWN.Process(target=build_for_ever, args=(disk.root, started))
    child.start()
    assert started.wait(60)
    os.kill(child.pid, signal.SIGKILL)
    child.join(60)
    assert disk.find(KEY) is None and disk.entries() == []
    [orphan] = (disk.root / "tmp").iterdir()
    begin = time.monotonic()
    assert disk.fetch(KEY, build).meta["registers"] == 32
    assert time.monotonic() - begin < 10 and orphan.exists()        # young: it might be at work
    monkeypatch.setattr(cache_disk, "STALE_SECONDS", 0.0)
    disk.clear()
    assert not orphan.exists()


def test_what_is_no_entry_is_neither_listed_nor_removed(tmp_path):
    """A cache directory set to a place that has folders of these names already."""
    cache = DiskCache(tmp_path)
    for folder in ("entries/photos", "tmp/old", "entries/linux-6.1"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").write_text("mine")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("mine")
    (tmp_path / "entries" / f"link-{'0' * 32}").symlink_to(tmp_path / "there")
    left = tmp_path / "tmp" / f"left-{'0' * 32}"
    left.mkdir()
    for path in (left, tmp_path / "tmp" / "old"):
        os.utime(path, (0, 0))
    cache.fetch(CacheKey(name="one", fields=()), lambda folder: {})
    assert [row.name for row in cache.entries()] == ["one"]
    assert cache.clear() == 1 and not left.exists()
    assert sorted(path.parent.name for path in tmp_path.rglob("file")) == ["linux-6.1", "old", "photos", "there"]
    assert (tmp_path / "entries" / f"link-{'0' * 32}").is_symlink()
