"""Whose files are used: what another user owns or could have written is never loaded."""

import ctypes
import os
import stat
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests import checks
from tests.runtime import device_object
from tests.runtime.build.test_cache import KEY, build, never
from tests.runtime.owners import give_away, is_root
from warpconv.codegen.errors import DeviceError
from warpconv.runtime import env, trust
from warpconv.runtime.build import cache, entry
from warpconv.runtime.build.cache import DiskCache
from warpconv.runtime.call import conv
from warpconv.runtime.devices.cpu import loading

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners of files, as POSIX has them")
needs_compiler = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


@pytest.fixture
def disk(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "_warned", set())
    return DiskCache(tmp_path / "parent" / "cache")


def assert_not_used(disk, reason):
    """One warning with the reason, a private entry, and nothing written or read at the root."""
    before = sorted(disk.root.rglob("*"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = disk.fetch(KEY, build)
        assert disk.fetch(KEY, never) == found
    [warning] = caught
    assert reason in str(warning.message) and "is not used" in str(warning.message)
    assert not found.path.is_relative_to(disk.root) and sorted(disk.root.rglob("*")) == before


def test_whatever_the_umask_others_can_write_nothing(disk):
    before = os.umask(0)
    try:
        disk.fetch(KEY, build)
    finally:
        os.umask(before)
    for path in [disk.root.parent, disk.root, *disk.root.rglob("*")]:
        if path.parent.name != "locks":         # they hold nothing, and lie in a directory of the user's alone
            assert stat.S_IMODE(path.stat().st_mode) in (0o700, 0o600), path
    assert disk.fetch(KEY, never)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_root_that_others_can_write(disk, mode):
    disk.fetch(KEY, build)
    disk.root.chmod(mode)
    assert trust.doubt(disk.root)
    assert_not_used(disk, "can be written by others")


def test_a_root_of_another_user(disk, monkeypatch):
    disk.fetch(KEY, build)
    give_away(monkeypatch, disk.root)
    assert_not_used(disk, "belongs to another user")


def test_a_way_that_others_can_turn(disk, tmp_path, monkeypatch):
    disk.fetch(KEY, build)
    disk.root.parent.chmod(0o777)
    assert_not_used(disk, f"{disk.root.parent} can be written by others")
    disk.root.parent.chmod(0o1777)              # sticky, as /tmp: others cannot rename what is ours
    assert disk.fetch(KEY, never).path.is_relative_to(disk.root)


def test_links_on_the_way(disk, tmp_path, monkeypatch):
    disk.fetch(KEY, build)
    (tmp_path / "link").symlink_to(disk.root.parent)
    linked = DiskCache(tmp_path / "link" / "cache")
    assert linked.fetch(KEY, never)
    disk.root.parent.chmod(0o777)               # seen behind the link, too
    assert_not_used(linked, "can be written by others")


@pytest.mark.skipif(not is_root(), reason="only root can give a link to another")
def test_a_link_of_another_user(disk, tmp_path, monkeypatch):
    disk.fetch(KEY, build)
    (tmp_path / "link").symlink_to(disk.root)
    give_away(monkeypatch, tmp_path / "link")
    assert_not_used(DiskCache(tmp_path / "link"), "belongs to another user")


def test_a_group_of_one_may_write_the_way(tmp_path, monkeypatch):
    """Where users have groups of their own, ~/.cache is often writable by the group."""
    tmp_path.chmod(0o770)
    monkeypatch.setattr(trust, "_group_of_one", lambda found: True)
    assert trust.doubt(tmp_path / "cache") is None
    assert "chmod go-w" in trust.doubt(tmp_path)            # but not the cache itself
    monkeypatch.setattr(trust, "_group_of_one", lambda found: False)
    assert "written by others" in trust.doubt(tmp_path / "cache")


def planted(path):
    """Another's file in an entry, its checksum right: meta.json is written anew over what is there."""
    (path / "kernel.cubin").unlink()
    (path / "kernel.cubin").write_bytes(b"evil")
    (path / "meta.json").unlink()
    entry.seal(path, KEY, {})


def test_a_planted_file_is_a_miss(disk, monkeypatch):
    path = disk.fetch(KEY, build).path
    planted(path)
    assert disk.find(KEY).read("kernel.cubin") == b"evil"           # with its checksum right nothing else tells
    (path / "kernel.cubin").chmod(0o666)
    assert disk.find(KEY) is None and "written by others" in disk.verify()[0][1]
    (path / "kernel.cubin").chmod(0o600)
    if is_root():
        give_away(monkeypatch, path / "kernel.cubin")
        assert disk.find(KEY) is None and "another user" in disk.verify()[0][1]
    assert disk.fetch(KEY, build).read("kernel.cubin") == b"\x7fELF cubin"


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_no_regular_file_is_a_miss(disk, tmp_path, kind):
    path = disk.fetch(KEY, build).path
    file = path / "kernel.cubin"
    (tmp_path / "outside").write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(tmp_path / "outside") if kind == "link" else os.mkfifo(file)
    assert disk.find(KEY) is None


# ---- the checked bytes are the loaded ones

def object_of(tmp_path, value):
    (tmp_path / "o.c").write_text(f"int answer(void) {{ return {value}; }}")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / f"o{value}.so", tmp_path / "o.c"], check=True)
    return (tmp_path / f"o{value}.so").read_bytes()


@needs_compiler
@pytest.mark.parametrize("memory", [True, False])
def test_each_load_is_of_its_own_bytes(tmp_path, monkeypatch, memory):
    """The loader knows libraries by their path, and numbers of descriptors come again: no load may give an older."""
    if not memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    one, two = object_of(tmp_path, 1), object_of(tmp_path, 2)
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    loaded = [loading.load(data, "o.so") for data in (one, two, one, two)]
    assert [library.answer() for library in loaded] == [1, 2, 1, 2]
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


def test_what_cannot_be_loaded_is_told():
    with pytest.raises(DeviceError, match="cannot be loaded") as caught:
        loading.load(b"no object", "o.so")
    assert "WARPCONV_CXX" in caught.value.hint and "/proc/" not in str(caught.value)


@needs_compiler
def test_an_object_replaced_between_check_and_load_is_not_run(tmp_path, monkeypatch):
    """conv2d runs the bytes that were checked, whatever stands at the entry's path a moment later."""
    x, w = np.ones((1, 1, 6, 7), np.float32), np.full((1, 1, 2, 3), 2, np.float32)
    device_object.copied(monkeypatch)
    with env.scope(cache_dir=tmp_path / "cache"):
        conv.clear()
        expected = conv2d(x, w)
        real = cache.load_entry

        def then_replaced(path, directory=None):
            found = real(path, directory)
            for file in path.glob("*.so"):
                file.write_bytes(b"evil")
            return found

        monkeypatch.setattr(cache, "load_entry", then_replaced)
        monkeypatch.setattr(ctypes, "CDLL", guarded(ctypes.CDLL, tmp_path))
        conv.clear()
        assert np.array_equal(conv2d(x, w), expected)
    conv.clear()


def conv2d(x, w):
    from warpconv import conv2d as call
    return call(x, w, device="cpu")


def guarded(real, forbidden):
    def load(name, *args, **kwargs):
        assert not str(name).startswith(str(forbidden)), "a path of the cache was loaded"
        return real(name, *args, **kwargs)
    return load

