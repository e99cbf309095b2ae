"""An nvcc that misbehaves, played by a shell script, and PyCUDA's way to it, played by a small module."""

import importlib
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.runtime.build.test_compilers import NVRTC_LOG, bare_machine, fake_nvcc, own_cache  # noqa: F401
from warpconv.codegen.errors import CompileError, ToolNotFound
from warpconv.runtime import env
from warpconv.runtime.build import compilers
from warpconv.runtime.build.compilers import CompilerKind, pycuda_route


def fake_compile(**rest):
    return compilers.compile_source("text", arch="sm_90", kind=CompilerKind.NVCC, **rest)


def test_nvcc_gets_its_own_variables_once(fake_nvcc, monkeypatch):
    fake_nvcc('while [ "$1" != -o ]; do shift; done; echo "$NVCC_APPEND_FLAGS." >"$2"')
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-DX")
    compiled = fake_compile()
    assert compiled.options[-1] == "-DX" and compiled.cubin == b".\n"
    assert compiled.version == "12.3.45" and compiled.entries == ()


def test_text_that_is_no_utf8_is_replaced(fake_nvcc):
    fake_nvcc(r"printf 'error: \377\376 bad\n' >&2; touch litter; exit 2")
    with pytest.raises(CompileError, match="error: \ufffd\ufffd bad"):
        fake_compile()


def test_success_without_a_cubin_is_an_error(fake_nvcc):
    fake_nvcc("exit 0")
    with pytest.raises(CompileError, match="wrote no cubin"):
        fake_compile()


def test_a_hanging_nvcc_and_its_children_are_stopped(fake_nvcc, tmp_path):
    fake_nvcc(f"sleep 600 & echo $! >{tmp_path}/child; wait")
    with env.scope(compile_limit=1.0), pytest.raises(CompileError, match="longer than 1 s and was stopped") as caught:
        fake_compile()
    assert "longer than 1 s" in caught.value.log and "WARPCONV_COMPILE_LIMIT" in caught.value.hint
    assert _gone(int((tmp_path / "child").read_text()))


def _gone(process):
    """Ended, or a zombie that nobody has collected."""
    for _ in range(50):
        try:
            if Path(f"/proc/{process}/stat").exists():
                if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                    return True
            os.kill(process, 0)
        except (OSError, IndexError):
            return True
        time.sleep(0.1)
    return False


def test_the_source_is_kept_elsewhere_if_the_cache_cannot_be_written(fake_nvcc, tmp_path, monkeypatch):
    fake_nvcc("echo 'error: no' >&2; exit 1")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    (tmp_path / "file").write_text("")
    with env.scope(cache_dir=tmp_path / "file" / "cache"), pytest.raises(CompileError) as caught:
        fake_compile()
    [kept] = elsewhere.rglob("*.cu")
    assert str(kept) in caught.value.hint and kept.read_text() == "text"


# ---- PyCUDA, played by a small module

PYCUDA = '''
import tempfile, pathlib, warnings
from pycuda.driver import CompileError
calls = []
def compile(source, nvcc="nvcc", options=None, keep=False, no_extern_c=False, arch=None, code=None, cache_dir=None,
            include_dirs=None, target="cubin"):
    calls.append(dict(source=source, nvcc=nvcc, options=options[:], no_extern_c=no_extern_c, arch=arch,
                      cache_dir=cache_dir, target=target))
    if "broken" in source:
        folder = tempfile.mkdtemp()
        raise CompileError(f"nvcc compilation of {folder}/kernel.cu failed", stderr="kernel.cu(1): error: broken")
    warnings.warn("The CUDA compiler succeeded, but said the following:\\n" + source)
    warnings.warn("something else")
    return b"cubin"
'''
DRIVER = '''
class CompileError(Exception):
    def __init__(self, message, stdout=None, stderr=None):
        super().__init__(message)
        self.stdout, self.stderr = stdout, stderr
'''


@pytest.fixture
def fake_pycuda(tmp_path, monkeypatch):
    def install(driver=DRIVER):
        folder = tmp_path / "site" / "pycuda"
        folder.mkdir(parents=True)
        for name, text in (("__init__", ""), ("driver", driver), ("compiler", PYCUDA)):
            (folder / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(str(folder.parent))
        importlib.invalidate_caches()

    def forget():
        for name in [name for name in sys.modules if name.partition(".")[0] == "pycuda"]:
            monkeypatch.delitem(sys.modules, name)

    forget()
    yield install
    for name in [name for name in sys.modules if name.partition(".")[0] == "pycuda"]:
        del sys.modules[name]


def pycuda_compile(text):
    return compilers.compile_source(text, arch="sm_90a", kind=CompilerKind.PYCUDA)


def test_pycuda_is_called_as_house_rules_say(fake_nvcc, fake_pycuda):
    path = fake_nvcc("exit 1")
    fake_pycuda()
    assert compilers.choose("pycuda") is CompilerKind.PYCUDA
    with env.scope(pycuda_default_nvcc_flags=("-DY",)), pytest.warns(UserWarning, match="something else") as caught:
        compiled = pycuda_compile(NVRTC_LOG)
    assert not any("succeeded" in str(warning.message) for warning in caught)
    assert compiled.cubin == b"cubin" and compiled.entry("g").registers == 10 and compiled.version.endswith("12.3.45")
    [call] = importlib.import_module("pycuda.compiler").calls
    assert call["options"][0] == "-DY" and not any(option.startswith("-arch") for option in call["options"])
    assert (call["nvcc"], call["no_extern_c"], call["arch"], call["cache_dir"], call["target"]) == (
        str(path), True, "sm_90a", False, "cubin")


def test_a_failure_under_pycuda_leaves_no_directory(fake_nvcc, fake_pycuda):
    fake_nvcc("exit 1")
    fake_pycuda()
    with pytest.raises(CompileError, match="error: broken") as caught:
        pycuda_compile("broken")
    assert type(caught.value.__cause__).__name__ == "CompileError"


def test_pycuda_without_a_driver_tells_the_reason(fake_nvcc, fake_pycuda):
    fake_nvcc("exit 1")
    fake_pycuda(driver="raise ImportError('libcuda.so.1: cannot open shared object file')")
    with pytest.raises(ToolNotFound, match="libcuda.so.1"):
        pycuda_compile("text")


def test_pycuda_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(pycuda_route, "missing", lambda: "pycuda is not installed")
    with pytest.raises(ToolNotFound, match="warpconv\\[gpu\\]"):
        compilers.choose("pycuda")
