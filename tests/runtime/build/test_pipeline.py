"""One way and one key from plan to binary, whatever the device."""

import dataclasses
import json
import re

import pytest

from tests import checks
from tests.runtime import device_object
from tests.runtime.pack.pack_tools import FakeCompiler
from warpconv.codegen.errors import KernelNotBuilt
from warpconv.codegen.parts.occupancy import thread_registers
from warpconv.codegen.resolution import plan as planned_again, with_fewer_blocks
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
    cache = DiskCache(tmp_path)
    monkeypatch.setattr(compilers, "compile_source", FakeCompiler())
    monkeypatch.setattr(compilers, "choose", lambda kind=None, settings=None: CompilerKind.NVRTC)
    built = build(PLAN, cache=cache)

    def none(kind=None, settings=None):
        raise compilers.ToolNotFound("no compiler")

    monkeypatch.setattr(compilers, "choose", none)
    assert build(PLAN, cache=cache).path == built.path


class SpillingCompiler:
    """Stands in for compile_source: what is told to leave registers for more than ``most`` blocks spills."""

    def __init__(self, most):
        self.most, self.blocks, self._compile = most, [], FakeCompiler()

    def __call__(self, text, **options):
        self.blocks.append(max(int(found) for found in re.findall(r"__launch_bounds__\(\w+, (\d+)\)", text)))
        self._compile.spilling, self._compile.spilled = "_", 8 if self.blocks[-1] > self.most else 0
        return self._compile(text, **options)


STAYING = checks.planned(ConvShape(n=8, c=32, k=64, h=56, w=56, r=3, s=3, padding=1, dtype="float16", layout="NHWC"),
                         "taps", {"warps": 4, "min_blocks": 4})     # its grid is what a chip holds of its blocks


def blocks_of(kernel):
    return kernel.settings["min_blocks"], kernel.program.steps[0].grid[0]


def test_a_kernel_that_spills_is_built_with_fewer_blocks_beside_each_other(tmp_path, monkeypatch):
    compiler, cache = SpillingCompiler(most=2), DiskCache(tmp_path)
    monkeypatch.setattr(compilers, "compile_source", compiler)
    assert STAYING.options.min_blocks == 4
    built = build(STAYING, CudaTarget(CompilerKind.NVRTC), cache=cache)
    assert compiler.blocks == [4, 3, 2]
    assert blocks_of(built)[0] == 2 and blocks_of(built)[1] != STAYING.program.steps[0].grid[0]
    assert ", 2)" in built.source and not any(entry.spills for entry in built.compiled.entries)
    assert built.plan().settings() == {**STAYING.settings(), "min_blocks": 2} == dict(built.settings)
    assert built.plan().program == built.program

    monkeypatch.setattr(compilers, "compile_source", lambda *_, **__: pytest.fail("it is in the cache"))
    again = build(STAYING, CudaTarget(CompilerKind.NVRTC), cache=cache)
    assert (again.source, again.program, again.settings) == (built.source, built.program, built.settings)
    noted = Text.noted(json.loads(json.dumps(Text.of(STAYING).to_note())))
    assert build(noted, CudaTarget(CompilerKind.NVRTC), cache=cache).program == built.program


def test_what_spills_with_fewer_blocks_too_is_built_as_it_was_asked_for(tmp_path, monkeypatch):
    compiler = SpillingCompiler(most=0)
    monkeypatch.setattr(compilers, "compile_source", compiler)
    built = build(STAYING, CudaTarget(CompilerKind.NVRTC), cache=DiskCache(tmp_path))
    assert compiler.blocks == [4, 3, 2, 4]      # two blocks leave a thread all that it can have
    assert built.program is STAYING.program and built.plan is STAYING
    assert any(entry.spills for entry in built.compiled.entries)


def test_blocks_are_fewer_where_that_gives_registers():
    fewer = with_fewer_blocks(STAYING)
    warps = STAYING.options.warps
    assert thread_registers(warps, fewer.options.min_blocks) > thread_registers(warps, STAYING.options.min_blocks)
    assert with_fewer_blocks(planned_again(STAYING.spec, {**STAYING.settings(), "min_blocks": 1})) is None
    assert with_fewer_blocks(checks.planned(ConvShape(c=64, k=64, h=8, w=8, r=1, s=1, dtype="float16", layout="NHWC"),
                                            "wgmma", arch="sm_90a")) is None      # no plan value says how many


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
