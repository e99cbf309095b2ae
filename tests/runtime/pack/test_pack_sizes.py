"""Packs of kernels whose plans ask something of sizes: served where they fit, built where they do not."""

from dataclasses import replace

import pytest

from tests.runtime.pack.pack_tools import use_fake_compiler, use_fake_gpu
from warpconv.codegen.errors import KernelNotBuilt
from warpconv.codegen.request import Request
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.call import conv
from warpconv.runtime.layers import NamedLayer
from warpconv.runtime.pack.pack import build_pack, find_in_packs, open_pack

PLANE = ConvShape(c=1, h=224, w=224, k=1, r=3, s=3, padding=1)


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    conv.clear()
    return use_fake_compiler(monkeypatch, tmp_path)


def test_a_kernel_serves_the_sizes_that_its_plan_takes(tmp_path, compiler, monkeypatch):
    """Loads of 16 bytes ask for a W that is a multiple of 4: other widths are no case for this kernel."""
    use_fake_gpu(monkeypatch)
    path, layer, odd = tmp_path / "pack", NamedLayer(name="plane", shape=PLANE, algorithm="wide"), replace(PLANE, w=225)
    build_pack([layer], path, ["sm_90"])
    pack = open_pack(path)
    demands = pack.read(pack.kernels()[0].id).program.demands
    assert "W a multiple of 4" in demands and demands == layer.plan("sm_90").program.demands
    kernel = pack.specialize(PLANE, device="cuda")
    assert pack.specialize(replace(PLANE, n=3, h=7, w=512), device="cuda") is kernel
    with pytest.raises(KernelNotBuilt) as caught:
        pack.specialize(odd, device="cuda", algorithm="wide")
    monkeypatch.setenv("WARPCONV_PACK", str(path))
    assert find_in_packs(Request.of(PLANE), device=0) is not None and find_in_packs(Request.of(odd), device=0) is None
    count = len(compiler.calls)
    assert conv.specialize(odd, device="cuda").plan is not None and len(compiler.calls) == count + 1
    assert conv.specialize(PLANE, device="cuda").plan is None and len(compiler.calls) == count + 1
    conv.clear()
    monkeypatch.setenv("WARPCONV_DISABLE_JIT", "1")
    monkeypatch.setenv("WARPCONV_DISABLE_CACHE", "1")
    with pytest.raises(KernelNotBuilt, match="no cache or pack"):
        conv.specialize(odd, device="cuda")
    assert caught.value.command.startswith("warpconv build --input N,1,H,")


def test_the_kernel_for_all_sizes_stands_behind_the_one_for_some(tmp_path, compiler, monkeypatch):
    use_fake_gpu(monkeypatch)
    odd = replace(PLANE, w=225)
    layers = [NamedLayer(name="any", shape=odd, algorithm="direct"),
              NamedLayer(name="plane", shape=PLANE, algorithm="wide")]
    build_pack(layers, tmp_path / "pack.zip", ["sm_90"])
    pack = open_pack(tmp_path / "pack.zip")
    assert [pack.specialize(shape, device="cuda").spec.algorithm for shape in (PLANE, odd)] == ["wide", "direct"]
