"""Building, loading and launching on the CPU device; constant and dynamic memory; several launches at once."""

import ctypes
import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import warpconv
from tests.runtime import device_object
from tests.runtime.devices.cpu_kernels.harness import (KERNEL, compiler_or_skip, fault, floats, program, read, run,
                                                      source, written)
from tests.runtime.devices.test_cpu_device_counts import run_convolution
from warpconv.codegen.errors import (ArgumentError, ArgumentTypeError, CompileError, KernelFault, KernelNotBuilt,
                                     ToolNotFound)
from warpconv.runtime import env
from warpconv.runtime.build.cache import DiskCache
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.devices.cpu import (Buffer, CpuProgram, Mode, abi, build_key_fields, find_toolchain, objects,
                                          target)

TOOLCHAIN = compiler_or_skip()
IDENTITY = KERNEL + "k(float* y) { y[threadIdx.x] = threadIdx.x; }"


# ---- building

def test_build_leaves_one_object_and_says_how(tmp_path):
    meta = CpuProgram.build(IDENTITY, entries=["k"], mode=Mode.FAST, directory=tmp_path / "new" / "k",
                            runtime_directory=device_object.FOLDER)
    assert [p.name for p in (tmp_path / "new" / "k").iterdir()] == ["kernel_fast.so"]
    assert meta["compiler"] and meta["version"] and "-ffp-contract=off" in meta["flags"]
    assert meta["seconds"] > 0 and isinstance(meta["log"], str)


def test_load_needs_no_compiler(tmp_path, monkeypatch):
    runtime = objects.runtime_in(device_object.FOLDER, Mode.FAST, TOOLCHAIN)
    CpuProgram.build(IDENTITY, entries=["k"], mode=Mode.FAST, directory=tmp_path, runtime=runtime)
    monkeypatch.setenv("PATH", "")
    y = floats(32)
    loaded = CpuProgram.load(tmp_path, entries=["k"], mode=Mode.FAST, runtime=runtime)
    report = loaded.launch("k", grid=(1, 1, 1), block=(32, 1, 1), shared_bytes=0, args=[written(y)])
    assert np.array_equal(y, np.arange(32))
    assert report.seconds > 0 and report.buffers["y"].store_requests == 0


def test_kernels_of_a_mode_share_the_runtime():
    """One that calls nothing of it, too, which a linker may hold to need no library."""
    texts = (IDENTITY, KERNEL + "k(float* y) { y[0] = 1.0f; }")
    for mode in Mode:
        runs = {ctypes.cast(program(text, mode).unconverted("k")[0], ctypes.c_void_p).value for text in texts}
        assert len(runs) == 1


def test_a_cache_that_was_cleared_has_the_runtime_beside_the_next_kernel(tmp_path, monkeypatch):
    """A later process finds both there, though this one has it in memory."""
    device_object.copied(monkeypatch)
    plan = warpconv.plan_layer(warpconv.ConvShape(c=1, h=8, w=8, k=1, r=3, s=3), algorithm="direct")
    for cache in (DiskCache(tmp_path / "one"), DiskCache(tmp_path / "two")):
        build(plan, target.CpuTarget(), cache=cache)
        assert {row.name.split("-cpu")[0] for row in cache.entries()} >= {"cpu-device-fast", "direct_3x3"}


def test_without_the_runtime_a_kernel_of_the_cache_is_not_built(tmp_path, monkeypatch):
    monkeypatch.setattr(target, "_runtimes", {})
    with env.scope(disable_jit=True), pytest.raises(KernelNotBuilt, match="own object is in no cache"):
        target.CpuTarget().runtime(DiskCache(tmp_path), env.settings())


def test_compile_error_carries_the_numbered_source(tmp_path):
    text = "// a comment\n" + KERNEL + "k(float* y) { y[0] = undeclared; }\n"
    with pytest.raises(CompileError) as caught:
        CpuProgram.compile(text, entries=["k"], mode=Mode.FAST, directory=tmp_path / "k",
                           runtime_directory=device_object.FOLDER)
    error = caught.value
    assert error.source == text and "-ffp-contract=off" in error.options
    assert "kernel.cu:2" in error.log and "undeclared" in str(error)
    assert error.numbered_source().splitlines()[1].startswith("2 | ")
    assert list((tmp_path / "k").iterdir()) == []


@pytest.mark.long
def test_an_entry_that_is_not_in_the_text(tmp_path):
    with pytest.raises(CompileError, match="nowhere"):
        CpuProgram.compile(IDENTITY, entries=["nowhere"], mode=Mode.FAST, directory=tmp_path,
                           runtime_directory=device_object.FOLDER)
    with pytest.raises(ArgumentError, match="one of k"):
        program(IDENTITY).launch("nowhere", grid=(1, 1, 1), block=(1, 1, 1), shared_bytes=0, args=[])


def test_missing_compiler_is_named(monkeypatch):
    with pytest.raises(ToolNotFound, match="no such C\\+\\+ compiler"):
        find_toolchain("no-such-compiler")
    monkeypatch.setenv("CXX", "no-such-compiler -m64")
    with pytest.raises(ToolNotFound, match="CXX"):
        find_toolchain()


def test_key_fields_change_with_what_determines_the_object():
    fields = dict(build_key_fields(IDENTITY, Mode.FAST))
    other_text = dict(build_key_fields(IDENTITY + " ", Mode.FAST))
    other_mode = dict(build_key_fields(IDENTITY, Mode.CHECK))
    other_fiber = dict(build_key_fields(IDENTITY, Mode.FAST, dataclasses.replace(TOOLCHAIN, fiber="ucontext")))
    assert {k for k in fields if fields[k] != other_text[k]} == {"text"}
    assert {k for k in fields if fields[k] != other_mode[k]} == {"mode", "kernel_flags", "runtime_flags"}
    assert {k for k in fields if fields[k] != other_fiber[k]} == {"runtime_flags"}
    assert build_key_fields(IDENTITY, Mode.FAST) == build_key_fields(IDENTITY, Mode.FAST)


def test_fault_kinds_of_the_header_are_those_of_the_error():
    header = Path(abi.__file__).parent / "device" / "abi.h"
    names = header.read_text().split("enum wcpu_fault_kind {")[1].split("}")[0].replace("\n", " ").split(",")
    kinds = [name.strip().removeprefix("WCPU_").lower().replace("_", "-") for name in names]
    assert kinds[1:] == list(KernelFault.KINDS)


def test_two_entries_of_one_text(tmp_path):
    text = KERNEL + "a(int* y) { y[0] = 1; } " + KERNEL + "b(int* y, int n) { y[0] += n; }"
    both = CpuProgram.compile(text, entries=["a", "b"], mode=Mode.FAST, directory=tmp_path,
                              runtime_directory=device_object.FOLDER)
    y = Buffer("y", np.zeros(1, np.int32), writable=True)
    for entry, args in (("a", [y]), ("b", [y, np.int32(41)])):
        both.launch(entry, grid=(1, 1, 1), block=(1, 1, 1), shared_bytes=0, args=args)
    assert y.array[0] == 42


# ---- memory

@pytest.mark.long
@pytest.mark.parametrize("mode", Mode)
def test_constant_memory(mode):
    text = "__constant__ float c[4]; " + KERNEL + "k(float* y) { y[threadIdx.x] = c[threadIdx.x & 3]; }"
    built = program(text, mode)
    for values in ([1, 2, 3, 4], [5, 6, 7, 8]):
        built.set_constant("c", np.array(values, np.float32))
        y = floats(8)
        built.launch("k", grid=(1, 1, 1), block=(8, 1, 1), shared_bytes=0, args=[written(y)])
        assert list(y) == values * 2
    with pytest.raises(ArgumentError, match="20 bytes do not fit constant array c of 16"):
        built.set_constant("c", floats(5))
    with pytest.raises(ArgumentError, match="no __constant__ array"):
        built.set_constant("d", floats(1))


def test_a_number_of_the_text_is_read_and_set():
    built = program('extern "C" { __attribute__((visibility("default"))) unsigned long long n = 3; } ' + KERNEL
                    + "k(float* y) { ++n; y[threadIdx.x] = 0.0f; }", Mode.FAST)
    for start in (3, 100):
        assert built.number("n").value == start
        built.launch("k", grid=(1, 1, 1), block=(8, 1, 1), shared_bytes=0, args=[written(floats(8))], threads=1)
        assert built.number("n").value == start + 8
        built.number("n").value = 100
    with pytest.raises(ArgumentError, match="no variable"):
        built.number("m")



@pytest.mark.thin(4)
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("declaration", ["extern __shared__ float s[];", "extern __shared__ __align__(16) float s[];",
                                         "extern __align__(16) __shared__ float s[];"])
@pytest.mark.parametrize("place", ["in the kernel", "at the top", "in extern C"])
def test_dynamic_shared_memory(mode, declaration, place):
    body = "s[threadIdx.x] = threadIdx.x; __syncthreads(); y[threadIdx.x] = s[63 - threadIdx.x]; }"
    text = {"in the kernel": KERNEL + "k(float* y) { " + declaration + body,
            "at the top": declaration + KERNEL + "k(float* y) { " + body,
            "in extern C": 'extern "C" { __global__ void k(float* y) { ' + declaration + body + " }"}[place]
    y = floats(64)
    run(text, [written(y)], mode=mode, block=(64, 1, 1), shared_bytes=256)
    assert np.array_equal(y, np.arange(63, -1, -1))


def test_two_dynamic_arrays_begin_at_one_address():
    text = KERNEL + """k(int* y) { extern __shared__ int words[]; extern __shared__ unsigned char bytes[];
        if (threadIdx.x == 0) words[0] = 0x01020304;
        __syncthreads();
        y[threadIdx.x] = bytes[threadIdx.x]; }"""
    y = np.zeros(4, np.int32)
    run(text, [written(y)], mode=Mode.FAST, block=(4, 1, 1), shared_bytes=4)
    assert list(y) == [4, 3, 2, 1]


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.thin(2)
def test_an_array_that_no_vector_access_could_start_at(mode):
    text = KERNEL + "k(const float4* x, float4* y) { y[threadIdx.x] = x[threadIdx.x]; }"
    x, y = np.arange(130, dtype=np.float32), floats(130)
    run(text, [read(x[1:129]), written(y[1:129])], mode=mode)
    assert np.array_equal(y[1:129], x[1:129]) and y[0] == y[129] == 0


@pytest.mark.long
def test_arrays_that_cannot_be_buffers():
    for array in (floats(8, 8).T, [1.0]):
        with pytest.raises(ArgumentTypeError):
            run(IDENTITY, [Buffer("y", array, writable=True)])
    with pytest.raises(ArgumentTypeError, match="NumPy scalar"):
        run(IDENTITY, [3])


# ---- fibers and workers

@pytest.mark.long
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", ["conv5_direct", "conv5_shuffle", "conv5_shared"])
def test_portable_fibers_give_the_same(name, mode):
    portable = dataclasses.replace(TOOLCHAIN, fiber="ucontext")
    y, expected, report = run_convolution(name, source(name), 70, 90, mode=mode, toolchain=portable)
    assert np.array_equal(y, expected)
    usual = run_convolution(name, source(name), 70, 90, mode=mode)[2]
    assert report.buffers == usual.buffers and report.shuffles == usual.shuffles


@pytest.mark.long
def test_portable_fibers_report_faults():
    portable = dataclasses.replace(TOOLCHAIN, fiber="ucontext")
    fault("out-of-bounds", IDENTITY, [written(floats(31))], "thread (31,0,0)", toolchain=portable)


@pytest.mark.thin(2)
@pytest.mark.parametrize("mode", Mode)
def test_launches_at_the_same_time(mode):
    name = "conv5_shared"

    def launch(seed):
        y, expected, _ = run_convolution(name, source(name), 60 + seed, 80, mode=mode, threads=1 + seed % 2)
        return np.array_equal(y, expected)

    program(source(name), mode)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(launch, range(12)))


@pytest.mark.thin(2)
@pytest.mark.parametrize("mode", Mode)
def test_a_large_block_that_waits_everywhere(mode):
    text = KERNEL + """k(int* y) { __shared__ int s[1024]; const int i = threadIdx.x; int sum = 0;
        for (int turn = 0; turn < 4; ++turn) {
            s[i] = i + turn;
            __syncthreads();
            sum += s[(i + 37) & 1023] + __shfl_xor_sync(0xffffffffu, i, 1);
            __syncthreads();
        }
        y[blockIdx.x * 1024 + i] = sum; }"""
    y = np.zeros((3, 1024), np.int32)
    run(text, [written(y)], mode=mode, block=(1024, 1, 1), grid=(3, 1, 1))
    i = np.arange(1024)
    assert np.array_equal(y, np.broadcast_to(4 * ((i + 37 & 1023) + (i ^ 1)) + 6, (3, 1024)))


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("vector", ["uint2", "float4"])
def test_vectors_that_a_block_shares(vector, mode):
    """No mark of theirs in shared memory looks like a race."""
    kind = "unsigned" if vector == "uint2" else "float"
    text = KERNEL + f"""k({kind}* y) {{ __shared__ {vector} s[64]; const int i = threadIdx.x;
        for (int turn = 0; turn < 2; ++turn) {{
            {vector} own = {{}};
            own.x = i + turn, own.y = i * 2;
            s[i] = own;
            __syncthreads();
            y[turn * 64 + i] = s[63 - i].x + s[63 - i].y;
            __syncthreads();
        }} }}"""
    y = np.zeros((2, 64), np.uint32 if vector == "uint2" else np.float32)
    run(text, [written(y)], mode=mode, block=(64, 1, 1))
    assert np.array_equal(y, 3 * (63 - np.arange(64)) + np.arange(2)[:, None])


def test_a_fault_in_one_launch_leaves_the_next_alone():
    for _ in range(3):
        fault("out-of-bounds", IDENTITY, [written(floats(31))])
        run(IDENTITY, [written(floats(32))])
