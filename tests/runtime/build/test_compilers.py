"""The compilers: the same report from each, errors that carry the source, and nothing left behind."""

import pickle
import stat
import subprocess
import tempfile

import pytest

from warpconv.codegen.errors import ArgumentError, CompileError, FileError, ToolNotFound
from warpconv.runtime import env
from warpconv.runtime.build import compilers
from warpconv.runtime.build.compilers import (Compiled, CompilerKind, EntryReport, check_no_spills, nvcc, nvrtc,
                                              parse_log, parse_ptx_isa, tools)

SOURCE = """\
// column sums of 32 x 32 tiles, and the first element of a shuffle; include-free, as emitted kernels are
constexpr unsigned ALL_LANES = 0xffffffffu;

extern "C" __global__ void __launch_bounds__(32)
columns(const float* __restrict__ x, float* __restrict__ y) {
    float acc = 0.0f;
    #pragma unroll
    for (int row = 0; row < 32; ++row) acc = fmaf(x[row * 32 + threadIdx.x], 0.5f, acc);
    y[threadIdx.x] = acc + __shfl_xor_sync(ALL_LANES, acc, 1);
}

extern "C" __global__ void __launch_bounds__(64)
reverse(float* y) {
    __shared__ float tile[64];
    tile[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[63 - threadIdx.x];
}
"""
LOCAL = """\
extern "C" __global__ void indexed(float* y) {
    float kept[300];                            // too many to keep in registers, and indexed at run time
    for (int i = 0; i < 300; ++i) kept[i] = y[i];
    y[0] = kept[int(y[1])];
}
"""
BROKEN = SOURCE + "\nextern \"C\" __global__ void broken() { undeclared = 1; }\n"


def _reason(kind):
    found = compilers.available()[kind]
    return None if found else f"{kind.value}: {found.reason}"


def needs(kind):
    reason = _reason(kind)
    return pytest.param(kind, id=kind.value,
                        marks=[pytest.mark.nvcc, pytest.mark.skipif(reason is not None, reason=str(reason))])


real_compilers = pytest.mark.parametrize("kind", [needs(CompilerKind.NVRTC), needs(CompilerKind.NVCC)])


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    for switch in env.SWITCHES:
        if switch.name not in ("CUDA_HOME", "CUDA_PATH"):
            monkeypatch.delenv(switch.name, raising=False)
    with env.scope(cache_dir=tmp_path / "cache"):
        yield


@pytest.fixture
def bare_machine(tmp_path, monkeypatch):
    """No toolkit, no wheel, nothing on PATH, and any attempt to start a process fails the test."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(tools, "USUAL_TOOLKIT", tmp_path / "no-toolkit")
    monkeypatch.setattr(tools, "wheel_files", lambda tool: ())
    monkeypatch.setattr(nvrtc, "_known_to_loader", lambda: None)


@pytest.fixture
def no_process(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError(f"a process was started: {args}")
    monkeypatch.setattr(subprocess, "Popen", refuse)


@pytest.fixture
def fake_nvcc(tmp_path, bare_machine, monkeypatch):
    """A shell script in nvcc's place; ``install(body)`` gives it what it does when it compiles."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def install(body):
        path = tmp_path / "nvcc"
        path.write_text(f'#!/bin/sh\ncase "$1" in --version) echo "Build V12.3.45"; exit 0;;\n'
                        f'--list-gpu-code) echo sm_75; echo sm_90; exit 0;; esac\n{body}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("WARPCONV_NVCC", str(path))
        return path

    yield install
    assert list(temporary.iterdir()) == [], "a temporary directory was left behind"


# ---- the report

NVCC_LOG = """\
ptxas info    : 0 bytes gmem, 72 bytes cmem[4]
ptxas info    : Compiling entry function 'f' for 'sm_75'
ptxas info    : Function properties for helper
    96 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
ptxas info    : Function properties for f
    16 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 60 registers, used 1 barriers, 1024+16 bytes smem, 376 bytes cmem[0], 8 bytes cmem[2]
"""
NVRTC_LOG = """\
ptxas info    : Compiling entry function 'g' for 'sm_90'
ptxas info    : Function properties for g
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers
"""


def test_logs_of_both_prefixes_are_read():
    assert parse_log(NVCC_LOG + NVRTC_LOG) == (
        EntryReport("f", 60, 16, 4, 12, 1040, 384), EntryReport("g", 10, 0, 0, 0, 0, 0))
    assert parse_log("") == parse_log("noise\nUsed 3 registers") == ()


def test_ptx_isa_is_read_from_the_text():
    assert parse_ptx_isa("//\n.version 9.5\n.target sm_90\n") == "9.5"
    assert parse_ptx_isa("// .version 1.0") is None and parse_ptx_isa(None) is None


def made(log=NVRTC_LOG):
    return Compiled(cubin=b"cubin", ptx=".version 9.5", ptx_isa="9.5", entries=parse_log(log), log=log,
                    compiler=CompilerKind.NVRTC, version="13.5", options=("-a", "-b"), arch="sm_90", seconds=0.1)


def test_meta_round_trips_through_json():
    import json
    meta = json.loads(json.dumps(made().to_meta() | {"other": 1}))
    assert Compiled.from_meta(meta, b"cubin", ".version 9.5") == made()
    assert made().entry("g").registers == 10 and made().entry("h") is None


def test_spills_are_refused_with_their_figures():
    check_no_spills(made(), SOURCE)
    with pytest.raises(CompileError, match=r"f \(60 registers, 16 bytes of stack, 4 bytes spilled, 12 bytes") as caught:
        check_no_spills(made(NVCC_LOG), SOURCE)
    assert caught.value.source == SOURCE and "WARPCONV_FAIL_ON_SPILLS" in caught.value.hint


# ---- what a key needs

def test_options_depend_on_every_setting_that_changes_the_cubin(no_process):
    for kind in CompilerKind:
        seen = {compilers.options_for(kind, "sm_90"), compilers.options_for(kind, "sm_90a")}
        overrides = [{"lineinfo": True}, {"nvcc_flags": "-maxrregcount=40"}]
        if kind is not CompilerKind.NVRTC:
            overrides += [{"nvcc_append_flags": "-G"}, {"nvcc_prepend_flags": "-DX"}]
        if kind is CompilerKind.PYCUDA:
            overrides += [{"pycuda_default_nvcc_flags": ("-DY",)}]
        for override in overrides:
            with env.scope(**override):
                seen.add(compilers.options_for(kind, "sm_90"))
        assert len(seen) == 2 + len(overrides), kind


def test_flags_that_nvrtc_does_not_take_are_left_out():
    assert nvrtc.flags(("-O3", "-Xcompiler", "-fPIC", "-ccbin=g++", "-DA", "-std", "c++20", "-use_fast_math")) == (
        "-DA", "-std=c++20", "-use_fast_math")


@pytest.mark.parametrize("arch", ["90", "sm_9", "compute_90", "sm_90x", "", "sm_90 -G"])
def test_misspelt_architectures_are_refused(arch):
    with pytest.raises(ArgumentError, match="sm_90a"):
        compilers.options_for(CompilerKind.NVRTC, arch)


# ---- choosing

def test_no_compiler_lists_the_ways_to_get_one(bare_machine, no_process):
    assert not any(compilers.available()[kind] for kind in (CompilerKind.NVRTC, CompilerKind.NVCC))
    with pytest.raises(ToolNotFound) as caught:
        compilers.choose()
    for way in ('pip install "warpconv[compile]"', "CUDA toolkit", "WARPCONV_NVCC"):
        assert way in caught.value.hint
    for kind in (CompilerKind.NVRTC, CompilerKind.NVCC):
        with pytest.raises(ToolNotFound):
            compilers.compile_source(SOURCE, arch="sm_90", kind=kind)


def test_auto_takes_nvrtc_else_nvcc(fake_nvcc, monkeypatch, no_process):
    path = fake_nvcc("exit 0")
    assert compilers.choose() is CompilerKind.NVCC and str(compilers.available()[CompilerKind.NVCC]) == str(path)
    monkeypatch.setattr(nvrtc, "find", lambda settings: "/some/libnvrtc.so.13")
    assert compilers.choose() is compilers.choose("auto") is CompilerKind.NVRTC
    with env.scope(compiler="nvcc"):
        assert compilers.choose() is CompilerKind.NVCC
        assert compilers.choose("nvrtc") is compilers.choose(CompilerKind.NVRTC) is CompilerKind.NVRTC
    with pytest.raises(ArgumentError, match="offered: auto, nvrtc"):
        compilers.choose("clang")


def test_a_wrong_nvcc_variable_is_named(bare_machine):
    with env.scope(nvcc="/nowhere/nvcc"):
        assert "WARPCONV_NVCC" in compilers.available()[CompilerKind.NVCC].reason
        with pytest.raises(ToolNotFound, match="WARPCONV_NVCC"):
            compilers.choose("nvcc")


def test_the_toolkit_comes_before_path(tmp_path, bare_machine, monkeypatch):
    places = {name: tmp_path / name / "bin" / "nvcc" for name in ("home", "cuda_path", "on_path")}
    for path in places.values():
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(places["on_path"].parent))
    assert nvcc.find(env.settings()) == places["on_path"]
    with env.scope(cuda_path=str(tmp_path / "cuda_path")):
        assert nvcc.find(env.settings()) == places["cuda_path"]
        with env.scope(cuda_home=str(tmp_path / "home")):
            assert nvcc.find(env.settings()) == places["home"]
            with env.scope(nvcc=str(places["on_path"])):
                assert nvcc.find(env.settings()) == places["on_path"]


@pytest.mark.parametrize("layout", ["cuda_nvrtc", "cu13"])
def test_nvrtc_is_found_in_both_wheel_layouts(tmp_path, bare_machine, monkeypatch, layout):
    library = tmp_path / "nvidia" / layout / "lib" / "libnvrtc.so.13"
    library.parent.mkdir(parents=True)
    for name in ("libnvrtc-builtins.so.13.5", "libnvrtc.alt.so.13", "libnvrtc.so.13"):
        (library.parent / name).write_bytes(b"")
    monkeypatch.setattr(tools, "_namespace_roots", lambda: (tmp_path / "nvidia",))
    monkeypatch.setattr(tools, "wheel_files", lambda tool: tuple(tools._namespace_files(tool)))
    assert nvrtc.find(env.settings()) == str(library)


def test_nvrtc_is_found_in_a_toolkit_and_a_broken_one_is_told(tmp_path, bare_machine):
    library = tmp_path / "cuda" / "lib64" / "libnvrtc.so.12"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"no library")
    with env.scope(cuda_home=str(tmp_path / "cuda")):
        assert compilers.choose() is CompilerKind.NVRTC
        with pytest.raises(ToolNotFound, match="cannot be loaded"):
            compilers.compile_source(SOURCE, arch="sm_90")


# ---- compiling

@pytest.mark.thin(2)
@real_compilers
@pytest.mark.parametrize("arch", ["sm_90", "sm_90a"])
def test_compiling_reports_each_kernel(kind, arch):
    compiled = compilers.compile_source(SOURCE, arch=arch, kind=kind)
    assert compiled.cubin[:4] == b"\x7fELF" and compiled.compiler is kind and compiled.arch == arch
    assert compiled.ptx is None and compiled.ptx_isa is None
    assert [entry.name for entry in compiled.entries] == ["columns", "reverse"]
    columns, reverse = compiled.entries
    assert 0 < columns.registers <= 255 and not columns.spills and columns.stack_bytes == 0
    assert reverse.shared_bytes == 256 and columns.shared_bytes == 0
    assert compiled.options == compilers.options_for(kind, arch) and compiled.seconds > 0
    assert compiled.version == compilers.version_of(kind) and compiled.version[0].isdigit()
    assert compilers.compile_source(SOURCE, arch=arch, kind=kind).cubin == compiled.cubin     # no date, no path
    assert not (env.settings().cache_dir).exists()


@pytest.mark.thin(2)
@real_compilers
def test_ptx_comes_with_its_isa(kind):
    compiled = compilers.compile_source(SOURCE, arch="sm_90", kind=kind, ptx=True)
    assert f".version {compiled.ptx_isa}" in compiled.ptx and ".entry columns" in compiled.ptx
    major, minor = compiled.ptx_isa.split(".")
    assert int(major) >= 7 and minor.isdigit()


@pytest.mark.nvcc
@pytest.mark.skipif(not (_reason(CompilerKind.NVRTC) is _reason(CompilerKind.NVCC) is None),
                    reason="needs NVRTC and nvcc: one of them is missing")
def test_nvrtc_and_nvcc_report_the_same():
    one, other = (compilers.compile_source(SOURCE, arch="sm_90", kind=kind).entries
                  for kind in (CompilerKind.NVRTC, CompilerKind.NVCC))
    assert one == other


class _Unsteady:
    """Stands in for NVRTC and one compilation by it: so many bytes are spilled by the first, the second and so on."""

    version = "13.5"

    def __init__(self, *spilled):
        self.spilled, self.times = spilled, 0

    def check_arch(self, arch):
        pass

    def compile(self, *_, **__):
        lost = self.spilled[self.times]
        self.times += 1
        log = NVRTC_LOG.replace(" 0 bytes", f" {lost} bytes")
        return b"%d" % self.times, None, log


@pytest.mark.parametrize("spilled, kept, times", [((0,), b"1", 1), ((4, 0), b"2", 2), ((16, 4, 12), b"2", 3),
                                                  ((4, 4, 4), b"1", 3), ((20,), b"1", 1), ((8, 20), b"1", 2)])
def test_what_nvrtc_spills_slightly_is_compiled_again(monkeypatch, spilled, kept, times):
    library = _Unsteady(*spilled)
    monkeypatch.setattr(nvrtc, "find", lambda settings: "/some/libnvrtc.so.13")
    monkeypatch.setattr(nvrtc, "_load", lambda where: library)
    monkeypatch.setattr(nvrtc, "_compile", library.compile)
    found = compilers.compile_source(SOURCE, arch="sm_90", kind=CompilerKind.NVRTC)
    assert (found.cubin, library.times) == (kept, times)
    assert found.entry("g").spill_stores == min(spilled)


@real_compilers
def test_local_memory_is_seen(kind):
    compiled = compilers.compile_source(LOCAL, arch="sm_90", kind=kind)
    assert compiled.entry("indexed").stack_bytes == 1200
    with pytest.raises(CompileError, match="indexed"):
        check_no_spills(compiled, LOCAL)


@real_compilers
def test_a_refused_source_is_kept_and_numbered(kind):
    with pytest.raises(CompileError, match="undeclared") as caught:
        compilers.compile_source(BROKEN, arch="sm_90", kind=kind, name="broken.cu")
    error = caught.value
    line = BROKEN.splitlines().index('extern "C" __global__ void broken() { undeclared = 1; }') + 1
    assert f"broken.cu({line})" in error.log and f"{line} | extern" in error.numbered_source()
    [kept] = (env.settings().cache_dir / "failed").glob("broken-*.cu")
    assert str(kept) in error.hint and kept.read_text() == BROKEN == error.source
    assert error.log in kept.with_suffix(".log").read_text()
    assert error.options == compilers.options_for(kind, "sm_90")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@real_compilers
@pytest.mark.parametrize("arch", ["sm_30", "sm_75a"])
def test_architectures_that_the_compiler_does_not_know(kind, arch):
    with pytest.raises(ArgumentError, match="sm_90") as caught:
        compilers.compile_source(SOURCE, arch=arch, kind=kind)
    assert caught.value.argument == "arch" and caught.value.value == arch


@real_compilers
def test_bad_flags_and_good_flags(kind):
    with env.scope(nvcc_flags="-O3 -DHALF=0.25f", lineinfo=True):
        text = SOURCE.replace("0.5f", "HALF")
        assert compilers.compile_source(text, arch="sm_90", kind=kind).entries
    with env.scope(nvcc_flags="--no-such-flag"), pytest.raises(CompileError, match="no-such-flag"):
        compilers.compile_source(SOURCE, arch="sm_90", kind=kind)


@pytest.mark.thin(2)
@real_compilers
def test_source_is_dumped_on_request(kind, tmp_path):
    with env.scope(dump_source=tmp_path / "dump"):
        compilers.compile_source(LOCAL, arch="sm_90", kind=kind, name="indexed.cu")
        compilers.compile_source(LOCAL, arch="sm_90", kind=kind, name="indexed.cu")
    [dumped] = (tmp_path / "dump").iterdir()
    assert dumped.name.startswith("indexed-") and dumped.read_text() == LOCAL
    (tmp_path / "file").write_text("")
    with env.scope(dump_source=tmp_path / "file" / "dump"), pytest.raises(FileError, match="WARPCONV_DUMP_SOURCE"):
        compilers.compile_source(LOCAL, arch="sm_90", kind=kind)


@pytest.mark.parametrize("name", ["../x.cu", "/tmp/x.cu", "x", "-o.cu", "a b.cu"])
def test_the_source_name_must_be_a_plain_file_name(name, monkeypatch):
    monkeypatch.setattr(nvrtc, "find", lambda settings: "/some/libnvrtc.so.13")
    with pytest.raises(ArgumentError):
        compilers.compile_source(SOURCE, arch="sm_90", name=name)
