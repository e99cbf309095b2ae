"""The ways to a loaded kernel: NVRTC, nvcc, PyCUDA's compiler, the disk cache, a pack. All give the same results."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
from tests import checks
from tests.gpu import support
from warpconv.codegen.errors import KernelNotBuilt
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build import compilers
from warpconv.runtime.build.compilers import CompilerKind
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.call import conv
from warpconv.runtime.layers import NamedLayer

pytestmark = pytest.mark.gpu

SHAPE = ConvShape(n=2, c=2, h=70, w=97, k=4, r=3, s=5, padding=(1, 2))


@pytest.fixture(autouse=True)
def fresh():
    conv.clear()
    yield
    conv.clear()


@pytest.mark.parametrize("algorithm", ["reuse", "direct"])
def test_every_compiler_gives_the_same_values(algorithm, monkeypatch):
    layer = support.Layer(SHAPE, seed=1)
    results = {}
    for kind in CompilerKind:
        found = compilers.available()[kind]
        assert found, f"{kind.value}: {found.reason}"
        monkeypatch.setenv("WARPCONV_COMPILER", kind.value)
        conv.clear()
        kernel = warpconv.specialize(SHAPE, device="cuda", algorithm=algorithm)
        assert kernel.report.compiler is kind
        results[kind] = kernel(layer.x, layer.w)
        layer.check(results[kind], kind.value)
        assert support.local_bytes(kernel) == 0
        assert kernel.report.entry(kernel.spec.name).registers == \
            kernel._backend.attributes()[kernel.spec.name].registers
    assert np.array_equal(results[CompilerKind.NVCC], results[CompilerKind.PYCUDA])


def test_source_module_builds_the_emitted_text():
    """pycuda.compiler.SourceModule itself, with the options that PyCUDA needs."""
    with support.primary_context():
        from pycuda.compiler import SourceModule
        plan = plan_layer(SHAPE, algorithm="reuse", arch=support.arch())
        kernel = support.kernel_of(plan)
        module = SourceModule(kernel.source, options=["-std=c++17"], no_extern_c=True, cache_dir=False,
                              arch=support.arch())
        assert module.get_function(plan.spec.name).local_size_bytes == 0


def test_a_warm_cache_compiles_nothing(monkeypatch):
    plan = plan_layer(SHAPE, algorithm="reuse", arch=support.arch())
    build(plan)
    monkeypatch.setenv("WARPCONV_DISABLE_JIT", "1")
    checks.check_kernel(support.kernel_of(plan), SHAPE)
    with pytest.raises(KernelNotBuilt) as caught:
        warpconv.specialize(ConvShape(c=3, h=9, w=9, k=3, r=2, s=6), device="cuda")
    assert caught.value.command.startswith("warpconv build ")


@pytest.mark.parametrize("name", ["pack", "pack.zip"])
def test_packs_serve(tmp_path, monkeypatch, name):
    layers = [NamedLayer(name="reuse", shape=SHAPE, algorithm="reuse"),
              NamedLayer(name="strided", shape=ConvShape(c=2, h=70, w=97, k=4, r=3,
                                                                                            s=5, stride=2))]
    report = warpconv.build_pack(layers, tmp_path / name, [support.arch()])
    assert report.ok
    monkeypatch.setenv("WARPCONV_DISABLE_JIT", "1")
    monkeypatch.setenv("WARPCONV_CACHE_DIR", str(tmp_path / "empty"))
    pack = warpconv.open_pack(tmp_path / name)
    for layer in layers:
        checks.check_kernel(pack.specialize(layer.shape, device="cuda"), layer.shape)
    monkeypatch.setenv("WARPCONV_PACK", str(tmp_path / name))
    conv.clear()
    layer = support.Layer(SHAPE, seed=7)
    layer.check(warpconv.conv2d(layer.x, layer.w, padding=(1, 2), device="cuda"), "conv2d from a pack")


def test_ptx_of_a_pack_is_compiled_by_the_driver(tmp_path, monkeypatch):
    major = int(support.arch().removeprefix("sm_")) // 10
    older = "sm_80" if major > 8 else "sm_75"
    report = warpconv.build_pack([NamedLayer(name="reuse", shape=SHAPE, algorithm="reuse")], tmp_path / "pack",
                                 [f"{older}+PTX"])
    assert report.ok
    monkeypatch.setenv("WARPCONV_DISABLE_JIT", "1")
    pack = warpconv.open_pack(tmp_path / "pack")
    try:
        kernel = pack.specialize(SHAPE, device="cuda")
    except warpconv.DeviceError as error:        # PTX of a compiler newer than the driver: a typed error says so
        assert "PTX" in str(error) and error.hint
        return
    checks.check_kernel(kernel, SHAPE)
