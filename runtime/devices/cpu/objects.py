"""From a kernel's text to a shared object: the compiler is called here, and nothing else is."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import CompileError, FileError, WarpconvError
from warpconv.runtime import env, paths
from warpconv.runtime.build.compilers import tools
from warpconv.runtime.build.patience import watched

from .report import Mode
from .toolchain import Toolchain, find_toolchain

DEVICE = Path(__file__).parent / "device"
# The names that device/device_primitives.h defines in place of the emitted text's one-line definitions.
PRIMITIVES = ("wc_half_to_float", "wc_float_to_half", "wc_bfloat16_to_float", "wc_float_to_bfloat16", "wc_read_again",
              "wc_settled", "wc_settled_address", "wc_exp2", "wc_reciprocal",
              "wc_half_low_to_float", "wc_half_high_to_float", "wc_floats_to_halves", "wc_floats_to_bfloat16s",
              "wc_to_uint8s", "wc_to_int8s", "wc_to_uint16s", "wc_to_int16s", "wc_dot_mixed",
              "wc_fma_halves", "wc_fma_bfloat16s", "wc_copy_async_4", "wc_copy_async_8", "wc_copy_async_16",
              "wc_copy_async_wait", "wc_copy_async_if_4", "wc_copy_async_if_8", "wc_copy_async_if_16",
              "wc_copy_async_zfill_4", "wc_copy_async_zfill_8", "wc_copy_async_zfill_16",
              "wc_copy_async_commit", "wc_copy_async_wait_group",
              "wc_load_matrices_4", "wc_load_matrices_2", "wc_transpose_matrix",
              "wc_mma_halves_16", "wc_mma_halves_8", "wc_mma_tf32s_8", "wc_mma_bfloat16s_16", "wc_mma_bfloat16s_8",
              "wc_mma_halves_pair", "wc_mma_bfloat16s_pair", "wc_mma_halves_sparse_32", "wc_mma_halves_sparse_16",
              "wc_mma_bfloat16s_sparse_32", "wc_mma_bfloat16s_sparse_16")
# The same of templates/parts/hopper.cuh.jinja and device/hopper_primitives.h.
HOPPER_PRIMITIVES = ("wc_barrier_init", "wc_fence_barrier_init", "wc_barrier_expect", "wc_barrier_arrive",
                     "wc_barrier_wait", "wc_sync_threads", "wc_launch_next", "wc_wait_for_launch",
                     "wc_stored_by_launch", "wc_bulk_load", "wc_tma_load_2", "wc_tma_load_3",
                     "wc_tma_load_4",
                     "wc_tma_load_5", "wc_tma_load_im2col_volumes", "wc_tma_load_im2col",
                     "wc_tma_store_2", "wc_tma_store_3", "wc_tma_store_4",
                     "wc_tma_stores_commit", "wc_tma_stores_read_all", "wc_tma_stores_read_but_1",
                     "wc_tma_stores_done", "wc_fence_proxy_async", "wc_descriptor_rows_128", "wc_descriptor_rows_64",
                     "wc_descriptor_columns_128", "wc_settled_descriptor", "wc_wgmma_halves_a_across",
                     "wc_wgmma_bfloat16s_a_across",
                     "wc_wgmma_halves_b_across",
                     "wc_wgmma_bfloat16s_b_across", "wc_wgmma_halves_across", "wc_wgmma_bfloat16s_across",
                     "wc_wgmma_halves_words", "wc_wgmma_bfloat16s_words", "wc_wgmma_tf32s_words",
                     "wc_wgmma_halves", "wc_wgmma_bfloat16s", "wc_wgmma_tf32s", "wc_wgmma_fence", "wc_wgmma_commit",
                     "wc_wgmma_wait_sums", "wc_wgmma_wait_sums_but_1", "wc_wgmma_wait_group_1", "wc_wgmma_wait_group_2",
                     "wc_setmaxnreg_dec", "wc_setmaxnreg_inc", "wc_store_matrices_4", "wc_store_matrices_2",
                     "wc_store_matrices_transposed_4", "wc_store_matrices_transposed_2",
                     "wc_load_matrices_transposed_4", "wc_load_matrices_transposed_2")
_PRIMITIVE = re.compile(rf"^__device__ __forceinline__ [\w *]+ ({'|'.join(PRIMITIVES + HOPPER_PRIMITIVES)})"
                        r"\(.*\) \{.*\}$", re.MULTILINE)
_PAST_L1 = "-DWARPCPU_PAST_L1"           # asynchronous copies that pass the first cache are counted as a GPU does
DYNAMIC_CAPACITY = 227 * 1024            # bytes: what a block can have on sm_90

_DYNAMIC_SHARED = re.compile(r"\bextern\s+(?:__align__\s*\([^)]*\)\s*)?__shared__\b[^;\[]*?(\w+)\s*\[\s*\]\s*;")

# comments and strings, of which assembly's own are part of the statement
_NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_ASSEMBLY = re.compile(r"\b(?:asm|__asm|__asm__)\b")

# what g++ says where a compiled header is at fault
_HEADER_FAILED = re.compile(r"\bPCH\b|precompiled|\.gch\b|internal compiler error")
_KILLED = re.compile(r"Killed signal terminated|virtual memory exhausted|out of memory|Cannot allocate memory")

HEADER = "cuda_subset.h"
COMPILED_HEADER = HEADER + ".gch"        # where g++ looks for it, in each folder before it looks for the header

_T = TypeVar("_T")
_read_header: set[tuple[str, ...]] = set()        # compilers that failed with a compiled header in this process


@dataclass(frozen=True)
class Runtime:
    """The device's own shared object, the same for all kernels of a mode, which are linked to it by its name: it says
    what decides the contents, and a process loads them once under it."""

    name: str
    data: bytes


def object_name(mode: Mode) -> str:
    """File name of a kernel's shared object."""
    return f"kernel_{mode.value}.so"


def build_key_fields(text: str, mode: Mode, toolchain: Toolchain | None = None) -> tuple[tuple[str, str], ...]:
    """Name and value of everything that determines the shared object; starts nothing. Raises ToolNotFound."""
    return (*machine_fields(mode, toolchain or find_toolchain()),
            ("text", hashlib.sha256(text.encode()).hexdigest()))


def machine_fields(mode: Mode, toolchain: Toolchain) -> tuple[tuple[str, str], ...]:
    """The same without the text."""
    return (("device", "cpu"), ("mode", mode.value), ("compiler", " ".join(toolchain.command)),
            ("compiler_identity", toolchain.identity), ("kernel_flags", " ".join(toolchain.kernel_flags(mode))),
            ("runtime_flags", " ".join(toolchain.runtime_flags(mode))),
            ("link_flags", " ".join(toolchain.link_flags())), ("headers", device_digest()))


def build(text: str, *, entries: Sequence[str], mode: Mode, directory: Path, runtime_directory: Path | None = None,
          toolchain: Toolchain | None = None, runtime: Runtime | None = None,
          header: Path | None = None) -> dict[str, object]:
    """Compile ``text`` into ``directory`` under :func:`object_name`; returns compiler, version, flags, seconds, log.

    The file appears complete or not at all. ``runtime``: what it is linked to; if None, that is kept in
    ``runtime_directory`` (default: ``directory``). ``header``: a folder that has the compiled header. Raises
    ToolNotFound where the compiler cannot be started, CompileError with its log where it refuses the text, FileError
    where it finds no disk to write to, OSError where ``directory`` cannot be written.
    """
    toolchain = toolchain or find_toolchain()
    directory.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    linked = runtime or runtime_in(runtime_directory or directory, mode, toolchain)
    flags = flags_of(text, mode, toolchain)

    def compiled(scratch: Path) -> tuple[bytes, str]:
        (scratch / "unit.cpp").write_text(_translation_unit(text, entries), encoding="utf-8")
        (scratch / linked.name).write_bytes(linked.data)
        log = _compile(toolchain, flags, header, scratch, linked.name, text)
        return _result(toolchain, scratch / "kernel.so", text, log), log

    data, log = _with_scratch(directory, compiled)
    install(directory / object_name(mode), data)
    return {"compiler": " ".join(toolchain.command), "version": toolchain.version(), "flags": flags,
            "seconds": time.perf_counter() - start, "log": log}


@functools.cache
def device_digest() -> str:
    """SHA-256 over the names and contents of the device's C++ files."""
    digest = hashlib.sha256()
    for path in sorted(DEVICE.iterdir()):
        if path.suffix in (".h", ".hpp", ".cpp"):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def runtime_name(mode: Mode, toolchain: Toolchain) -> str:
    """File name of the runtime that this compiler makes, by which kernels find it."""
    identity = "\0".join((*toolchain.command, toolchain.identity, *toolchain.runtime_flags(mode), device_digest()))
    return f"warpconv_{mode.value}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.so"


def runtime_in(directory: Path, mode: Mode, toolchain: Toolchain) -> Runtime:
    """The runtime of ``directory``, compiled if it is not there yet."""
    path = runtime_object(directory, mode, toolchain)
    return Runtime(path.name, path.read_bytes())


def runtime_object(directory: Path, mode: Mode, toolchain: Toolchain) -> Path:
    """Its file."""
    path = directory / runtime_name(mode, toolchain)
    if paths.exists(path):
        return path
    directory.mkdir(parents=True, exist_ok=True)
    source = DEVICE / "runtime.cpp"
    text = source.read_text(encoding="utf-8")

    def compiled(scratch: Path) -> bytes:
        log = _compiler(toolchain, [*toolchain.runtime_flags(mode), str(source), f"-Wl,-soname,{path.name}",
                                    "-o", "runtime.so"], scratch, text, "could not compile the CPU device's own code")
        return _result(toolchain, scratch / "runtime.so", text, log)

    install(path, _with_scratch(directory, compiled))
    return path


def flags_of(text: str, mode: Mode, toolchain: Toolchain) -> list[str]:
    """Flags that compile this text to an object."""
    past_l1 = (_PAST_L1,) if mode is Mode.CHECK and "cp.async.cg" in text else ()
    return [*toolchain.kernel_flags(mode), *past_l1]


def compile_header(directory: Path, flags: Sequence[str], toolchain: Toolchain) -> None:
    """Put the device's header, as g++ has it once it is read, into ``directory``: to read it is a fifth of a kernel's
    compilation. Raises as build() does."""
    def compiled(scratch: Path) -> bytes:
        log = _compiler(toolchain, [*flags, "-x", "c++-header", str(DEVICE / HEADER), "-o", COMPILED_HEADER], scratch,
                        "", "could not compile the CPU device's header")
        return _result(toolchain, scratch / COMPILED_HEADER, "", log)

    install(directory / COMPILED_HEADER, _with_scratch(directory, compiled))


def _translation_unit(text: str, entries: Sequence[str]) -> str:
    """The text as it is, less the primitives that this device has of its own, and what Python needs to launch it."""
    text = _PRIMITIVE.sub(r"// \1: the CPU device's own", text)
    _refuse_assembly(text)
    dynamic = sorted(set(_DYNAMIC_SHARED.findall(text)))
    lines = ['#line 1 "kernel.cu"', text, '#line 1 "launchers"']
    function = "nullptr"
    if dynamic:
        # All such arrays begin at the same address, as on the GPU: their names become labels of one array.
        lines.append(f'alignas(1024) thread_local unsigned char wcpu_dynamic[{DYNAMIC_CAPACITY}] asm("wcpu_dynamic");')
        lines += [f'asm(".globl {name}\\n.type {name}, @tls_object\\n.set {name}, wcpu_dynamic");' for name in dynamic]
        lines.append("static void *wcpu_dynamic_address() { return wcpu_dynamic; }")
        function = "wcpu_dynamic_address"
    lines += [f"WCPU_ENTRY({entry}, {function}, {DYNAMIC_CAPACITY if dynamic else 0})" for entry in entries]
    return "\n".join(lines) + "\n"


def _refuse_assembly(text: str) -> None:
    """Raises CompileError for inline PTX, which a C++ compiler would refuse in its own, longer words."""
    code = _NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    found = _ASSEMBLY.search(code)
    if found is not None:
        number = code.count("\n", 0, found.start()) + 1
        line = text.splitlines()[number - 1].strip()
        raise CompileError(f"inline PTX in line {number} of the text, which the CPU device cannot execute: "
                           f"{line[:200]}", source=text, options=(), log="",
                           hint="only the primitives of templates/parts/primitives.cuh.jinja and hopper.cuh.jinja can "
                                "hold it: the device has functions of its own for these")


def _with_scratch(directory: Path, work: Callable[[Path], _T]) -> _T:
    """``work`` in a folder for the compiler alone, which goes afterwards: a short path that nobody sweeps or clears.

    It is in the temporary directory; where that takes no more, beside what is built. Raises FileError where neither
    does.
    """
    for place in (None, directory):
        try:
            with tempfile.TemporaryDirectory(prefix="warpconv-", dir=place, ignore_cleanup_errors=True) as scratch:
                return work(Path(scratch))
        except OSError as error:
            if isinstance(error, WarpconvError):
                raise
            failure = error
    raise FileError(f"the C++ compiler has no place for its files: {paths.reason(failure)}", argument="TMPDIR",
                    value=tempfile.gettempdir() if tempfile.tempdir else None,
                    hint="free some space, or set TMPDIR to a directory that can be written") from failure


def _compile(toolchain: Toolchain, flags: Sequence[str], header: Path | None, scratch: Path, runtime: str,
             source: str) -> str:
    """Make kernel.so of unit.cpp and the runtime; with the header's text where the compiled one fails, which some
    systems cannot load where it was made, or its folder cannot be read, as by a process that has become another user.
    Raises as _compiler does."""
    def compiled(*include: str) -> str:
        unit = [*flags, "-x", "c++", *include, "unit.cpp"]
        linked = ["-x", "none", "-Wl,--no-as-needed", runtime, *toolchain.link_flags(), "-o", "kernel.so"]
        refused = "refused the text for the CPU device"
        if toolchain.links_at_once:
            return _compiler(toolchain, [*unit, *linked], scratch, source, refused)
        log = _compiler(toolchain, [*unit, "-c", "-o", "kernel.o"], scratch, source, refused)
        return log + _compiler(toolchain, ["kernel.o", *linked], scratch, source, "could not link the kernel for the "
                               "CPU device")

    if header is not None and toolchain.program not in _read_header:
        try:
            return compiled("-I", str(header), "-I", str(DEVICE), "-include", HEADER)
        except CompileError as error:
            if not _HEADER_FAILED.search(error.log) and str(header) not in error.log:
                raise
            _read_header.add(toolchain.program)
    return compiled("-include", str(DEVICE / HEADER))


def _compiler(toolchain: Toolchain, arguments: list[str], scratch: Path, source: str, failed: str) -> str:
    """Run the compiler in ``scratch`` and return what it printed. Raises CompileError, ToolNotFound, or OSError where
    the disk is at fault."""
    name = Path(toolchain.command[0]).name
    with watched(f"a kernel for the CPU device by {name}", env.settings()) as watch:
        status, out, err = tools.run_tool([*toolchain.program, *arguments], cwd=scratch, watch=watch)
    if status == 0:
        return err
    if watch.over:
        raise CompileError(f"{name} {watch.stopped}", source=source, options=tuple(arguments), log=err,
                           hint=watch.hint)
    if (disk := tools.disk_error(err, scratch)) is not None:
        raise disk
    hint = "the machine ran out of memory" if _KILLED.search(err) else None
    raise CompileError(f"{' '.join(toolchain.command)} {failed}:\n{(err or out)[:2000]}", source=source,
                       options=tuple(arguments), log=err, hint=hint)


def _result(toolchain: Toolchain, path: Path, source: str, log: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise CompileError(f"{' '.join(toolchain.command)} reported success but wrote nothing", source=source,
                           options=(), log=log, hint="name a C++ compiler in WARPCONV_CXX, such as g++") from None


def install(path: Path, data: bytes) -> None:
    """Write a file that appears whole or not at all. Raises OSError."""
    aside = path.with_name(f".{uuid.uuid4().hex}")
    try:
        aside.write_bytes(data)
        os.replace(aside, path)
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
