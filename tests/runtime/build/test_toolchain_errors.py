"""What can be wrong with a C++ compiler and with the disk it writes to: each told in words, nothing unusable kept."""

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests import checks
from tests.runtime import device_object
from warpconv import conv2d
from warpconv.codegen.errors import CompileError, DeviceError, FileError, ToolNotFound
from warpconv.runtime import env
from warpconv.runtime.build import cache
from warpconv.runtime.build.compilers import nvcc, tools
from warpconv.runtime.build.patience import Watch
from warpconv.runtime.call import conv
from warpconv.runtime.devices.cpu import find_toolchain

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
X, W = np.ones((1, 1, 6, 8), np.float32), np.full((1, 1, 3, 3), 2, np.float32)


@pytest.fixture
def call(tmp_path, monkeypatch):
    """conv2d on the CPU device with a cache of its own, ``call.root``."""
    def run():
        conv.clear()
        with env.scope(cache_dir=run.root):
            return conv2d(X, W, device="cpu")

    run.root = tmp_path / "cache"
    monkeypatch.setattr(cache, "_warned", set())
    yield run
    conv.clear()


@pytest.fixture
def device_made(monkeypatch):
    """Where it is the kernel that such a compiler or disk has to do with."""
    device_object.copied(monkeypatch)


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


def wrapper(path, body):
    """A compiler that does ``body``, in shell, before it is the real one (``"$REAL" "$@"``)."""
    real = " ".join(find_toolchain().program)
    return script(path, f'#!/bin/sh\nREAL="{real}"\n{body}\n')


@pytest.mark.parametrize("command", ["'g++", '"', "no-such-program", "no-such-program -m64", "/"])
def test_commands_that_name_no_program(monkeypatch, command):
    monkeypatch.setenv("CXX", command)
    with pytest.raises(ToolNotFound) as caught:
        find_toolchain()
    assert caught.value.argument == "CXX" and caught.value.value == command


@pytest.mark.parametrize("command", ["", " ", "\t"])
def test_a_blank_command_is_none(monkeypatch, command):
    monkeypatch.delenv("CXX", raising=False)
    usual = find_toolchain()
    monkeypatch.setenv("CXX", command)
    assert find_toolchain() == usual == find_toolchain(command)


@pytest.mark.long
def test_a_path_with_a_blank_is_one_program(tmp_path, device_made, call):
    (tmp_path / "my tools").mkdir()
    compiler = wrapper(tmp_path / "my tools" / "my g++", 'exec $REAL "$@"')
    with env.scope(cxx=str(compiler)):
        assert (call() == 18).all()
    assert find_toolchain(f"{sys.executable} -m ziglang c++").command[1:] == ("-m", "ziglang", "c++")


def test_a_relative_path_is_found_from_anywhere(tmp_path, monkeypatch, device_made, call):
    wrapper(tmp_path / "g++-here", 'exec $REAL "$@"')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CXX", "./g++-here")
    assert (call() == 18).all()


def test_a_file_of_a_wrong_format(tmp_path, monkeypatch, call):
    script(tmp_path / "cc", "\x7fno program").chmod(0o755)
    monkeypatch.setenv("CXX", str(tmp_path / "cc"))
    with pytest.raises(ToolNotFound, match="cannot be started: Exec format error"):
        call()


def test_a_c_compiler_or_what_makes_no_object_of_this_machine(tmp_path, monkeypatch, call):
    """It links without the C++ library, or for another processor: told, and not kept in the cache."""
    out = 'for last; do :; done; echo none > "$last"'
    monkeypatch.setenv("CXX", str(wrapper(tmp_path / "g++", f'{out}')))
    with pytest.raises(DeviceError, match="cannot be loaded") as caught:
        call()
    assert "WARPCONV_CXX" in caught.value.hint
    kept = [row.name for row in cache.DiskCache(call.root).entries()]
    assert kept == ["cpu-device-fast", "cpu-header-fast"]       # the kernel is not


# its folder: the first of those that are searched
HEADER_FOLDER = r"$(echo $* | sed 's/.* -I \([^ ]*\) -I .*/\1/')"


@pytest.mark.parametrize("says", ["had to relocate PCH", "internal compiler error: Segmentation fault",
                                  HEADER_FOLDER + "/stdc-predef.h: Permission denied"])
def test_a_compiled_header_that_cannot_be_loaded(tmp_path, monkeypatch, device_made, call, says):
    """Some systems give a compiler no memory at the address where it was made; another user may not read its folder."""
    met = tmp_path / "met"
    body = f'case "$*" in *"-include cuda_subset.h"*) touch {met}; echo "fatal error: {says}" >&2; exit 1;; esac'
    monkeypatch.setenv("CXX", str(wrapper(tmp_path / "g++", f'{body}\nexec $REAL "$@"')))
    assert (call() == 18).all() and met.exists()


def test_a_header_that_cannot_be_compiled_is_read(tmp_path, monkeypatch, device_made, call):
    body = 'case "$*" in *c++-header*) exit 1;; esac'
    monkeypatch.setenv("CXX", str(wrapper(tmp_path / "g++", f'{body}\nexec $REAL "$@"')))
    assert (call() == 18).all()
    assert [row.name for row in cache.DiskCache(call.root).entries()][0] == "cpu-device-fast"


@pytest.mark.long
def test_gcc_itself(monkeypatch, call):
    """gcc links no C++ library: it works where the kernel needs none of it, else it is told."""
    monkeypatch.setenv("CXX", "gcc")
    try:
        assert (call() == 18).all()
    except (DeviceError, CompileError) as error:
        assert "gcc" in str(error) or "WARPCONV_CXX" in str(error)
        assert all("reuse" not in row.name for row in cache.DiskCache(call.root).entries())
        with pytest.raises((DeviceError, CompileError)):
            call()


def test_a_log_that_is_not_utf8(tmp_path, monkeypatch, call):
    compiler = wrapper(tmp_path / "g++", r"printf 'error: \377\376 no\n' >&2; exit 1")
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(CompileError, match="error: \ufffd\ufffd no"):
        call()


def test_a_compiler_that_writes_nothing(tmp_path, monkeypatch, call):
    monkeypatch.setenv("CXX", str(script(tmp_path / "g++", "#!/bin/sh\nexit 0\n")))
    with pytest.raises(CompileError, match="wrote nothing"):
        call()


def test_an_object_in_the_cache_that_loads_no_more_is_built_again(device_made, call, monkeypatch):
    from warpconv.runtime.devices.cpu import loading
    assert (call() == 18).all()
    real, refused = loading.load, []

    def once(data, name):
        if not refused:
            refused.append(name)
            raise DeviceError("libgone.so: no such file")
        return real(data, name)

    monkeypatch.setattr(loading, "load", once)
    assert (call() == 18).all() and refused


# ---- the disk

@pytest.mark.long
@pytest.mark.parametrize("words", ["error writing to /tmp/cc.s: No space left on device",
                                   "final link failed: No space left on device", "x.o: Disk quota exceeded"])
def test_a_full_temporary_directory_is_no_refusal_of_the_text(tmp_path, monkeypatch, call, words):
    """Where the compiler's own folder takes no more, it works beside the cache; where neither does, it is told."""
    stuck = tmp_path / "full"
    stuck.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(stuck))
    body = f'case "$PWD" in {stuck}/*) echo "cc1plus: {words}" >&2; exit 1;; esac; exec $REAL "$@"'
    monkeypatch.setenv("CXX", str(wrapper(tmp_path / "g++", body)))
    assert (call() == 18).all()
    call.root = tmp_path / "other"
    monkeypatch.setenv("CXX", str(wrapper(tmp_path / "clang++", f'echo "cc1plus: {words}" >&2; exit 1')))
    with pytest.raises(FileError, match="no place for its files") as caught:
        call()
    assert "TMPDIR" in str(caught.value)


@pytest.mark.long
def test_a_compiler_never_works_below_the_cache(tmp_path, monkeypatch, call):
    """What happens to the cache meanwhile (cleared, swept, a path of 4,000 letters) is nothing to the compiler."""
    body = f'case "$PWD$*" in *{call.root}*) echo "in the cache: $*" >&2; exit 1;; esac; exec $REAL "$@"'
    monkeypatch.setenv("CXX", str(wrapper(tmp_path / "g++", body)))
    assert (call() == 18).all()


@pytest.mark.long
@pytest.mark.parametrize("length", [3900, 3990, 4050, 4090])
def test_a_cache_with_a_very_long_path(tmp_path, call, length):
    """Near the system's limit some files of an entry can be made and others cannot."""
    root = tmp_path
    while len(str(root)) < length - 210:
        root = root / ("d" * 200)
    call.root = root / ("e" * (length - len(str(root)) - 1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert (call() == 18).all()
    assert ["too long" in str(warning.message) for warning in caught] == ([] if length == 3900 else [True])


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root can mount a file system")
def test_a_noexec_cache(tmp_path, device_made, call):
    import subprocess
    call.root.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec,mode=700", "none", call.root], capture_output=True)
    if done.returncode:
        pytest.skip(f"no mounting here: {done.stderr.decode()[:100]}")
    try:
        assert (call() == 18).all()
        kept = [path.name for path in (call.root / "entries").iterdir() if not path.name.startswith("cpu-header")]
        assert len(kept) == 2 and {name.split("_")[0].split("-")[0] for name in kept} == {"cpu", "wide"}
    finally:
        subprocess.run(["umount", "-l", call.root], check=True)


def test_nvcc_on_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "run_tool", lambda *a, **k: (1, "", "ptxas fatal: x.cubin: No space left on device"))
    with pytest.raises(FileError, match="nvcc has no place for its files: No space left"):
        nvcc._run(Path("/nvcc"), [], tmp_path, "", "sm_90", (), Watch(None))
