"""Disassembly, from texts of both tools and from a cubin compiled here."""

from pathlib import Path

import pytest

from warpconv.codegen.errors import ArgumentError, ToolNotFound
from warpconv.runtime import env
from warpconv.runtime.build import compilers, disassembly as sass
from warpconv.runtime.build.compilers import CompilerKind, tools

SOURCE = """\
extern "C" __global__ void __launch_bounds__(32)
exchange(const float* __restrict__ x, float* __restrict__ y) {
    const float value = x[threadIdx.x];
    const float other = __shfl_xor_sync(0xffffffffu, value, 1);
    y[threadIdx.x] = fmaf(value, 3.0f, other);
}

extern "C" __global__ void copy(const float* __restrict__ x, float* __restrict__ y) {
    y[threadIdx.x] = x[threadIdx.x];
}
"""
CUOBJDUMP = """\
\t\tFunction : first
\t.headerflags\t@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;             /* 0x00000a00ff017b82 */
                                                                      /* 0x000fe20000000800 */
        /*0010*/               @P0 EXIT ;                             /* 0x000000000000094d */
        /*0020*/              @!P1 LDG.E.CONSTANT R27, desc[UR26][R2.64] ; /* 0x0 */
        /*0030*/             @!UP2 UIADD3 UR4, UR4, 0x1, URZ ;        /* 0x0 */
        /*0040*/                   LDG.E R27, desc[UR26][R2.64] ;     /* 0x0 */
\t\tFunction : second
        /*0000*/                   FFMA R1, R2, R3, R4 ;              /* 0x0 */
"""
NVDISASM = """\
//--------------------- .text.first           --------------------------
\t.section\t.text.first,"ax",@progbits
first:
.text.first:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_17:
        /*0010*/               @P0 EXIT ;
        /*0020*/              @!P1 LDG.E.CONSTANT R27, desc[UR26][R2.64] ;
        /*0030*/             @!UP2 UIADD3 UR4, UR4, 0x1, URZ ;
        /*0040*/                   LDG.E R27, desc[UR26][R2.64] ;
.text.second:
        /*0000*/                   FFMA R1, R2, R3, R4 ;
"""


@pytest.mark.parametrize("text", [CUOBJDUMP, NVDISASM], ids=["cuobjdump", "nvdisasm"])
def test_opcodes_are_counted_per_kernel(text):
    assert sass.count_instructions(text, "first") == {"LDC": 1, "EXIT": 1, "LDG": 2, "UIADD3": 1}
    assert sass.count_instructions(text, "second") == {"FFMA": 1}
    assert sass.count_instructions(text)["LDG"] == 2 and sass.count_instructions(text)["FFMA"] == 1
    with pytest.raises(ArgumentError, match="first, second"):
        sass.count_instructions(text, "third")


def test_no_disassembler_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(tools, "USUAL_TOOLKIT", tmp_path)
    monkeypatch.setattr(tools, "wheel_files", lambda tool: ())
    assert sass.available() is None
    with pytest.raises(ToolNotFound, match="warpconv\\[compile\\]"):
        sass.disassemble(b"\x7fELF")


def _missing():
    found = compilers.available()
    if not (found[CompilerKind.NVRTC] or found[CompilerKind.NVCC]):
        return "no CUDA compiler on this machine"
    return None if sass.available() else "no disassembler on this machine"


needs_tools = pytest.mark.skipif(_missing() is not None, reason=str(_missing()))


@pytest.fixture(scope="module")
def cubin():
    return compilers.compile_source(SOURCE, arch="sm_90").cubin


@pytest.mark.thin(3)
@pytest.mark.nvcc
@needs_tools
@pytest.mark.parametrize("tool", ["cuobjdump", "nvdisasm"])
def test_a_compiled_kernel(cubin, tool, monkeypatch):
    real = tools.find_program
    if tool == "nvdisasm":
        monkeypatch.setattr(tools, "find_program", lambda name, s: None if name == "cuobjdump" else real(name, s))
    assert Path(sass.available()).name == tool or tool == "cuobjdump"
    text = sass.disassemble(cubin)
    exchange, copy = (sass.count_instructions(text, entry) for entry in ("exchange", "copy"))
    assert (exchange["LDG"], exchange["SHFL"], exchange["FFMA"], exchange["STG"]) == (1, 1, 1, 1)
    assert (copy["LDG"], copy["SHFL"], copy["STG"]) == (1, 0, 1)
    assert exchange["LDL"] == exchange["STL"] == exchange["BAR"] == 0


@pytest.mark.nvcc
@needs_tools
def test_bytes_that_are_no_cubin_are_refused():
    with pytest.raises(ArgumentError, match="cubin"):
        sass.disassemble(b"no cubin at all")


@pytest.mark.nvcc
@needs_tools
def test_switches_are_taken_from_the_argument(cubin):
    with env.scope() as settings:
        assert "exchange" in sass.disassemble(cubin, settings)
