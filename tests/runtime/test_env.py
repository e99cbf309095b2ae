"""The table of switches: every variable is declared, typed, readable and refused with its name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from warpconv.codegen.errors import ArgumentError
from warpconv.runtime import env
from warpconv.runtime.env import ArchRequest, CompilerChoice


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for switch in env.SWITCHES:
        monkeypatch.delenv(switch.name, raising=False)


def test_defaults_need_no_variable():
    settings = env.settings()
    assert settings.cache_dir.name == "warpconv" and settings.cache_dir.is_absolute()
    assert settings.compiler is CompilerChoice.AUTO
    assert settings.compile_jobs >= 1 and settings.cpu_threads >= 1
    assert not settings.disable_cache and settings.nvcc_flags == () and settings.nvcc is None


@pytest.mark.parametrize("name, text, expected", [
    ("WARPCONV_CACHE_DIR", "/a/b", Path("/a/b")),
    ("WARPCONV_DISABLE_CACHE", "yes", True),
    ("WARPCONV_DISABLE_JIT", "0", False),
    ("WARPCONV_COMPILER", "NVCC", CompilerChoice.NVCC),
    ("WARPCONV_NVCC", "nvcc-13", Path("nvcc-13")),
    ("WARPCONV_NVCC", "/opt/cuda/bin/nvcc", Path("/opt/cuda/bin/nvcc")),
    ("WARPCONV_NVCC_FLAGS", "-DA='x y' -lineinfo", ("-DA=x y", "-lineinfo")),
    ("WARPCONV_CUDA_ARCH_LIST", "8.0 9.0a 10.0+PTX",
     (ArchRequest("sm_80", False), ArchRequest("sm_90a", False), ArchRequest("sm_100", True))),
    ("WARPCONV_CUDA_ARCH_LIST", "hopper; 9.0+PTX,12.0", (ArchRequest("sm_90", True), ArchRequest("sm_120", False))),
    ("WARPCONV_COMPILE_JOBS", "3", 3),
    ("WARPCONV_COMPILE_LIMIT", "0.5", 0.5),
    ("WARPCONV_DUMP_SOURCE", "~/dump", Path.home() / "dump"),
    ("WARPCONV_PACK", os.pathsep.join(("/p/a", "/p/b")), (Path("/p/a"), Path("/p/b"))),
    ("WARPCONV_LOG_LEVEL", "debug", "DEBUG"),
    ("PYCUDA_DEFAULT_NVCC_FLAGS", " -O3  -DX ", ("-O3", "-DX")),
])
def test_values_are_typed(monkeypatch, name, text, expected):
    monkeypatch.setenv(name, text)
    field = next(switch.field for switch in env.SWITCHES if switch.name == name)
    assert getattr(env.settings(), field) == expected


@pytest.mark.parametrize("name, text", [
    ("WARPCONV_DISABLE_CACHE", "perhaps"), ("WARPCONV_COMPILER", "clang"), ("WARPCONV_COMPILE_JOBS", "0"),
    ("WARPCONV_CPU_THREADS", "many"), ("WARPCONV_CUDA_ARCH_LIST", "sm_90"), ("WARPCONV_NVCC_FLAGS", "'open"),
    ("WARPCONV_COMPILE_LIMIT", "-1"), ("WARPCONV_COMPILE_LIMIT", "nan"),
    ("WARPCONV_LOG_LEVEL", "loud"), ("WARPCONV_LINEINFO", "2"),
])
def test_bad_values_name_the_variable(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    with pytest.raises(ArgumentError) as caught:
        env.settings()
    assert caught.value.argument == name and caught.value.value == text and caught.value.hint
    assert name in str(caught.value) and text in str(caught.value)


def test_blank_means_unset(monkeypatch):
    monkeypatch.setenv("WARPCONV_COMPILE_JOBS", "  ")
    assert env.settings().compile_jobs >= 1


def test_relative_paths_follow_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("WARPCONV_CACHE_DIR", "here")
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        monkeypatch.chdir(folder)
        assert env.settings().cache_dir == folder / "here"


def test_toolkits_prefer_cuda_home(monkeypatch):
    monkeypatch.setenv("CUDA_PATH", "/cuda/path")
    assert env.settings().toolkits == (Path("/cuda/path"),)
    monkeypatch.setenv("CUDA_HOME", "/cuda/home")
    assert env.settings().toolkits == (Path("/cuda/home"), Path("/cuda/path"))


def test_scope_overrides_nests_and_ends(monkeypatch):
    monkeypatch.setenv("WARPCONV_COMPILE_JOBS", "3")
    with env.scope(compile_jobs=5, cache_dir="/x") as outer:
        assert outer.compile_jobs == 5 and outer.cache_dir == Path("/x")
        with env.scope(compile_jobs="7"):
            assert env.settings().compile_jobs == 7 and env.settings().cache_dir == Path("/x")
        with env.scope(cache_dir=None):
            assert env.settings().cache_dir.name == "warpconv"
        assert env.settings().compile_jobs == 5
    assert env.settings().compile_jobs == 3


def test_scope_refuses_unknown_switches_and_bad_text():
    with pytest.raises(ArgumentError, match="no_such"), env.scope(no_such=1):
        pass
    with pytest.raises(ArgumentError, match="WARPCONV_COMPILER"), env.scope(compiler="clang"):
        pass


def test_table_has_a_row_for_each_switch():
    rows = env.table()
    assert [row[0] for row in rows] == [switch.name for switch in env.SWITCHES]
    assert all(isinstance(cell, str) for row in rows for cell in row)
    assert all(row[1] and row[3] for row in rows)


def test_a_switch_without_its_field_is_met_at_import(monkeypatch):
    monkeypatch.delitem(env._BY_FIELD, "lineinfo")
    with pytest.raises(TypeError, match="Settings and SWITCHES"):
        env._check_table()


def test_no_other_module_reads_our_variables():
    """A WARPCONV_ variable that is read elsewhere would escape the table, the types and ``scope``."""
    read = re.compile(r"(?:environ(?:\.get)?|getenv)[\[(]\s*[\"']WARPCONV_\w+")
    for path in Path(env.__file__).parent.rglob("*.py"):
        assert not read.search(path.read_text(encoding="utf-8")), path


def test_import_needs_nothing_and_reads_nothing():
    """Neither a bad variable nor a missing compiler may break an import."""
    code = ("import sys, warpconv.runtime.env, warpconv.runtime.build.cache, warpconv.runtime.build.compilers, "
            "warpconv.runtime.build.disassembly; assert 'pycuda' not in sys.modules")
    child_env = {**os.environ, "WARPCONV_COMPILER": "nonsense", "PATH": ""}
    subprocess.run([sys.executable, "-c", code], env=child_env, check=True, timeout=60)
