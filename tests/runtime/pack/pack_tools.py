"""What the tests of packs share: a compiler that only pretends, a GPU that only records, and small layers."""

from __future__ import annotations

import hashlib
import threading

from tests.runtime import device_object
from warpconv.codegen.hardware import Hardware
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue
from warpconv.runtime.build import compilers
from warpconv.runtime.build.compilers import Compiled, CompilerKind, EntryReport
from warpconv.runtime.layers import NamedLayer

SHAPE = ConvShape(n=2, c=3, h=20, w=40, k=4, r=3, s=3)
LAYERS = (NamedLayer(name="small", shape=SHAPE),
          NamedLayer(name="strided", shape=ConvShape(n=1, c=2, h=17, w=19, k=4, r=5, s=5, stride=2, padding=2),
                     epilogue=(Epilogue.BIAS, Epilogue.RELU)))


class FakeCompiler:
    """Stands in for compilers.compile_source; ``spilling`` and ``refusing`` are parts of names of kernels."""

    def __init__(self):
        self.calls = []
        self.isa = "8.4"
        self.spilling = self.refusing = self.exploding = None
        self.spilled = 72
        self._lock = threading.Lock()

    def __call__(self, text, *, arch, kind=None, ptx=False, name="kernel.cu", settings=None):
        with self._lock:
            self.calls.append((name, arch))
        if self.exploding and self.exploding in name:
            raise KeyboardInterrupt
        if self.refusing and self.refusing in name:
            raise compilers.CompileError("refused", source=text, options=(), log="error: no")
        spilled = self.spilled if self.spilling and self.spilling in name else 0
        cubin = b"\x7fELF" + hashlib.sha256(f"{arch} {text}".encode()).digest()
        ptx_text = f".version {self.isa}\n.target {arch}\n" if ptx else None
        return Compiled(cubin=cubin, ptx=ptx_text, ptx_isa=self.isa if ptx else None, version="13.0", arch=arch,
                        entries=(EntryReport(name.removesuffix(".cu"), 40, spilled, spilled, spilled, 128, 0),),
                        log=f"ptxas info : Used 40 registers\nptxas info : Compile time = {len(self.calls)} ms\n",
                        compiler=CompilerKind.NVRTC, options=compilers.options_for(CompilerKind.NVRTC, arch, settings),
                        seconds=0.01 * len(self.calls))


class FakeCudaBackend:
    """Stands in for CudaBackend; refuses to load where ``error`` is set."""

    made: list[FakeCudaBackend] = []
    error: Exception | None = None

    def __init__(self, program, code, ordinal):
        self.program, self.code, self.ordinal, self.device = program, code, ordinal, f"cuda:{ordinal}"
        FakeCudaBackend.made.append(self)

    def load(self):
        if FakeCudaBackend.error is not None:
            raise FakeCudaBackend.error


def use_fake_compiler(monkeypatch, tmp_path):
    """A FakeCompiler in the compilers' place, and a fresh cache."""
    device_object.copied(monkeypatch)
    monkeypatch.setenv("WARPCONV_CACHE_DIR", str(tmp_path / "cache"))
    fake = FakeCompiler()
    monkeypatch.setattr(compilers, "compile_source", fake)
    monkeypatch.setattr(compilers, "choose", lambda kind=None, settings=None: CompilerKind.NVRTC)
    return fake


def use_fake_gpu(monkeypatch, arch="sm_90", driver=(13, 0)):
    """One GPU of ``arch`` whose driver is made for CUDA ``driver``."""
    from warpconv.runtime.pack import pack
    from warpconv.runtime.devices.cuda import backend, contexts
    FakeCudaBackend.made, FakeCudaBackend.error = [], None
    monkeypatch.setattr(backend, "CudaBackend", FakeCudaBackend)
    monkeypatch.setattr(contexts, "arch", lambda ordinal: arch)
    monkeypatch.setattr(contexts, "hardware", lambda ordinal: Hardware.of(arch))
    monkeypatch.setattr(contexts, "name", lambda ordinal: "a GPU that nobody has measured")
    monkeypatch.setattr(contexts, "usable", lambda: None)
    monkeypatch.setattr(contexts, "default_device", lambda: 0)
    monkeypatch.setattr(pack, "driver_version", lambda: driver)
