"""One way and one key from plan to binary, whatever the device."""

import dataclasses

import pytest

from tests import checks
from tests.runtime import device_object
from warpconv.codegen.errors import KernelNotBuilt
from warpconv.codegen.serialise import plan_identity
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import env
from warpconv.runtime.build import compilers, pipeline
from warpconv.runtime.build.cache import DiskCache
from warpconv.runtime.build.compilers import CompilerKind
from warpconv.runtime.build.pipeline import CudaTarget, Text, build, cache_key
from warpconv.runtime.devices.cpu import Mode
from warpconv.runtime.devices.cpu.target import CpuTarget

PLAN = checks.planned(ConvShape(c=1, h=40, w=40, k=1, r=3, s=3), "direct")
needs_cxx = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


@needs_cxx
@pytest.mark.parametrize("target", [CudaTarget(CompilerKind.NVRTC), CudaTarget(CompilerKind.NVCC, ptx=True),
                                    CpuTarget(), CpuTarget(Mode.CHECK)], ids=repr)
def test_a_key_is_the_plans_identity_and_what_the_target_adds(target):
    settings = env.settings()
    key = cache_key(PLAN, target, settings)
    assert dict(key.fields) == {**plan_identity(PLAN), **target.fields(PLAN.spec, settings), "form": pipeline.FORM}
    assert key.name == f"{PLAN.spec.name}-{target.label(PLAN.spec)}"


@needs_cxx
def test_targets_have_keys_of_their_own():
    targets = (CudaTarget(CompilerKind.NVRTC), CudaTarget(CompilerKind.NVRTC, ptx=True), CudaTarget(CompilerKind.NVCC),
               CpuTarget(), CpuTarget(Mode.CHECK))
    assert len({cache_key(PLAN, target, env.settings()).digest for target in targets}) == len(targets)


@pytest.mark.long
@needs_cxx
def test_the_cpu_devices_binary_is_kept_like_a_cubin(tmp_path, monkeypatch):
    cache, target = DiskCache(tmp_path), CpuTarget()
    with pytest.raises(KernelNotBuilt, match="WARPCONV_DISABLE_JIT") as caught:
        build(PLAN, target, cache=cache, settings=dataclasses.replace(env.settings(), disable_jit=True))
    assert "warpconv build" in caught.value.command
    built = build(PLAN, target, cache=cache)
    assert built.compiled is None and (built.path / "kernel_fast.so").exists()
    monkeypatch.setattr(CpuTarget, "compile", lambda *a: pytest.fail("it is in the cache"))
    monkeypatch.setattr("warpconv.codegen.render.render", lambda *_: pytest.fail("it is in the cache"))
    again = build(PLAN, target, cache=cache, settings=dataclasses.replace(env.settings(), disable_jit=True))
    assert (again.source, again.path, again.program) == (built.source, built.path, PLAN.program)


@needs_cxx
@pytest.mark.parametrize("times", [1, 2])
def test_who_clears_the_cache_meanwhile_stops_no_build(times, tmp_path, monkeypatch):
    """A file goes before the entry is sealed: it is built once more, at last apart from the cache."""
    device_object.copied(monkeypatch)
    compile, lost = CpuTarget.compile, []

    def losing(self, text, source, folder, *more):
        meta = compile(self, text, source, folder, *more)
        if len(lost) < times:
            lost.append(folder)
            (folder / pipeline.SOURCE).unlink()
        return meta

    monkeypatch.setattr(CpuTarget, "compile", losing)
    cache = DiskCache(tmp_path)
    built = build(PLAN, CpuTarget(), cache=cache)
    assert len(lost) == times and built.source and (built.path / "kernel_fast.so").exists()
    assert (cache.find(cache_key(PLAN, CpuTarget(), env.settings())) is None) is (times == 2)


@needs_cxx
def test_texts_for_the_cpu_device_are_dumped(tmp_path, monkeypatch):
    device_object.copied(monkeypatch)
    with env.scope(dump_source=tmp_path / "dump"):
        built = build(PLAN, CpuTarget(), cache=DiskCache(tmp_path / "cache"))
    dumped, = (tmp_path / "dump").iterdir()
    assert dumped.suffix == ".cu" and dumped.read_text() == built.source


@pytest.mark.long
@needs_cxx
def test_a_text_that_is_there_is_found_by_the_text(tmp_path, monkeypatch):
    device_object.copied(monkeypatch)
    cache, source = DiskCache(tmp_path), Text.of(PLAN).render()
    first = build(Text.given(PLAN.spec, PLAN.program, source), CpuTarget(), cache=cache)
    assert first.path == build(Text.given(PLAN.spec, PLAN.program, source), CpuTarget(), cache=cache).path
    other = build(Text.given(PLAN.spec, PLAN.program, source + "// edited\n"), CpuTarget(), cache=cache)
    assert other.path != first.path and other.source.endswith("// edited\n")


def test_where_no_compiler_is_any_ones_kernel_will_do(tmp_path, monkeypatch):
    from tests.runtime.pack.pack_tools import FakeCompiler
    cache = DiskCache(tmp_path)
    monkeypatch.setattr(compilers, "compile_source", FakeCompiler())
    monkeypatch.setattr(compilers, "choose", lambda kind=None, settings=None: CompilerKind.NVRTC)
    built = build(PLAN, cache=cache)

    def none(kind=None, settings=None):
        raise compilers.ToolNotFound("no compiler")

    monkeypatch.setattr(compilers, "choose", none)
    assert build(PLAN, cache=cache).path == built.path


@pytest.mark.long
@needs_cxx
def test_an_entry_of_another_form_is_left_alone(tmp_path, monkeypatch):
    """A text's own key, which no version of the generator is part of, had entries that note less."""
    cache, text = DiskCache(tmp_path), Text.of(PLAN)
    monkeypatch.setattr(pipeline, "FORM", "1")
    older = cache.fetch(cache_key(PLAN, CpuTarget(), env.settings()), lambda folder: {"flags": []})
    monkeypatch.undo()
    device_object.copied(monkeypatch)
    assert build(text, CpuTarget(), cache=cache).source and older.path.exists()
