"""Building packs: resumed, in parallel, never half-written, and every failure a row of the report."""

import json
import multiprocessing
import os
import threading
import zipfile

import pytest

from tests.runtime.pack.pack_tools import LAYERS, SHAPE, use_fake_compiler
from warpconv.codegen.errors import ArgumentError, FileError, PackError
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.layers import NamedLayer
from warpconv.runtime.pack import build as pack_build
from warpconv.runtime.pack.pack import build_pack, open_pack

ARCHS = ("sm_80", "sm_90")


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    return use_fake_compiler(monkeypatch, tmp_path)


@pytest.fixture(params=["pack", "pack.zip", "pack.ZIP"])
def output(request, tmp_path):
    return tmp_path / "out" / request.param


def statuses(report):
    return [row.status for row in report.rows]


def files_of(path):
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_build_reports_every_layer_and_arch(compiler, output):
    seen = []
    report = build_pack(LAYERS, output, ARCHS, progress=seen.append)
    assert report.ok and statuses(report) == ["built"] * 4
    assert [(row.name, row.arch) for row in report.rows] == [(layer.name, a) for layer in LAYERS for a in ARCHS]
    assert sorted(map(id, seen)) == sorted(map(id, report.rows))
    row = report.rows[0]
    asked = max(launch.shared_bytes for launch in plan_layer(LAYERS[0].shape, arch=ARCHS[0]).program.launches)
    assert (row.registers, row.spills, row.stack, row.shared, row.bytes) == (40, 0, 0, 128 + asked, 36)
    kernels = open_pack(output).kernels()
    assert [kernel.id for kernel in kernels] == [row.kernel for row in report.rows]
    assert [kernel.layers for kernel in kernels] == [("small",), ("small",), ("strided",), ("strided",)]


def test_a_second_build_compiles_nothing_and_writes_nothing(compiler, output, monkeypatch):
    build_pack(LAYERS, output, ARCHS)
    before, count = files_of(output), len(compiler.calls)
    monkeypatch.setenv("WARPCONV_DISABLE_CACHE", "1")       # what is up to date is seen in the pack itself
    monkeypatch.setattr(pack_build, "_writer", lambda *a: pytest.fail("nothing is to be written"))
    report = build_pack(LAYERS, output, ARCHS)
    assert statuses(report) == ["up-to-date"] * 4 and report.ok
    assert [row.registers for row in report.rows] == [40] * 4
    assert len(compiler.calls) == count and files_of(output) == before


def test_equal_builds_are_equal_bytes(compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("WARPCONV_DISABLE_CACHE", "1")
    for name in ("a", "b"):
        build_pack(LAYERS, tmp_path / name, ARCHS, jobs=2)
        build_pack(LAYERS, tmp_path / f"{name}.zip", ARCHS, jobs=1)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b") == files_of(tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_a_pack_grows_and_a_layer_of_the_same_name_is_replaced(compiler, output):
    build_pack(LAYERS[:1], output, ARCHS)
    old = [kernel.id for kernel in open_pack(output).kernels()]
    build_pack(LAYERS[1:], output, ["sm_90"])
    assert [k.id for k in open_pack(output).kernels()][:2] == old and len(open_pack(output).kernels()) == 3
    changed = NamedLayer(name="small", shape=ConvShape(n=2, c=3, h=20, w=40, k=8, r=3, s=3))
    build_pack([changed], output, ["sm_90"])
    kernels = open_pack(output).kernels()
    assert {(k.spec.k, str(k.spec.arch)) for k in kernels if k.layers == ("small",)} == {(4, "sm_80"), (8, "sm_90")}
    assert old[1] not in "".join(files_of(output))          # what is replaced is gone from the disk too


def test_layers_with_one_kernel_compile_it_once(compiler, output):
    twin = NamedLayer(name="twin", shape=SHAPE.with_batch(9))
    report = build_pack([LAYERS[0], twin], output, ["sm_90"])
    assert statuses(report) == ["built", "built"] and len(compiler.calls) == 1
    assert [kernel.layers for kernel in open_pack(output).kernels()] == [("small", "twin")]


def test_options_and_plan_values_decide_what_is_up_to_date(compiler, output, monkeypatch):
    build_pack(LAYERS[:1], output, ["sm_90"])
    assert statuses(build_pack(LAYERS[:1], output, ["sm_90+PTX"])) == ["built"]
    assert open_pack(output).kernels()[0].ptx_isa == "8.4"
    assert statuses(build_pack(LAYERS[:1], output, ["sm_90"], ptx=True)) == ["up-to-date"]
    monkeypatch.setenv("WARPCONV_LINEINFO", "1")
    assert statuses(build_pack(LAYERS[:1], output, ["sm_90"], ptx=True)) == ["built"]
    tiled = NamedLayer(name="small", shape=SHAPE, algorithm="direct", settings={"k_tile": 2})
    assert statuses(build_pack([tiled], output, ["sm_90"], ptx=True)) == ["built"]
    assert len(open_pack(output).kernels()) == 1


# ---- failures

def test_spills_fail_unless_allowed(compiler, output):
    compiler.spilling = "direct"
    layers = [NamedLayer(name="one", shape=SHAPE, algorithm="direct"),
              NamedLayer(name="two", shape=SHAPE, algorithm="reuse")]
    report = build_pack(layers, output, ["sm_90"])
    assert not report.ok and statuses(report) == ["failed", "built"]
    assert "promises registers" in report.rows[0].reason and report.rows[0].spills == 144
    assert "--allow-spills" in report.rows[0].reason
    assert [kernel.layers for kernel in open_pack(output).kernels()] == [("two",)]
    allowed = build_pack(layers, output, ["sm_90"], allow_spills=True)
    assert allowed.ok and statuses(allowed) == ["built", "up-to-date"]
    assert statuses(build_pack(layers, output, ["sm_90"])) == ["failed", "up-to-date"]     # not forgiven by a resume


def test_a_few_registers_may_spill_and_are_told(compiler, output):
    compiler.spilling, compiler.spilled = "direct", 64
    report = build_pack([NamedLayer(name="one", shape=SHAPE, algorithm="direct")], output, ["sm_90"])
    assert report.ok and (report.rows[0].spills, report.rows[0].stack) == (128, 64)


def test_a_plan_that_promises_no_registers_may_spill(compiler, output):
    compiler.spilling = "reuse"
    layer = NamedLayer(name="local", shape=SHAPE, algorithm="reuse", settings={"exchange": "dynamic_local"})
    assert build_pack([layer], output, ["sm_90"]).ok


def test_what_does_not_compile_is_a_row_and_the_rest_is_built(compiler, output):
    compiler.refusing = "direct"
    layers = [NamedLayer(name="bad", shape=SHAPE, algorithm="direct"),
              NamedLayer(name="declined", shape=LAYERS[1].shape, algorithm="reuse"),
              NamedLayer(name="good", shape=SHAPE, algorithm="reuse")]
    report = build_pack(layers, output, ["sm_90"])
    assert statuses(report) == ["failed", "declined", "built"] and not report.ok
    assert "refused" in report.rows[0].reason and "stride" in report.rows[1].reason
    assert len(open_pack(output).kernels()) == 1


def test_declined_alone_is_no_failure_and_leaves_no_pack(compiler, output):
    report = build_pack([NamedLayer(name="a", shape=LAYERS[1].shape, algorithm="reuse")], output, ["sm_90"])
    assert report.ok and report.count("declined") == 1 and not (output / "manifest.json").exists()


def test_compiling_is_off(compiler, output, monkeypatch):
    monkeypatch.setenv("WARPCONV_DISABLE_JIT", "1")
    report = build_pack(LAYERS[:1], output, ["sm_90"])
    assert statuses(report) == ["failed"] and "WARPCONV_DISABLE_JIT" in report.rows[0].reason


@pytest.mark.parametrize("change, argument", [
    ({"layers": []}, "layers"), ({"archs": []}, "archs"), ({"archs": ["hopper9"]}, "archs"), ({"jobs": 0}, "jobs"),
    ({"layers": LAYERS[:1] * 2}, "layers"),
    ({"layers": [NamedLayer(name="x", shape=SHAPE, algorithm="direct", settings={"warp": 1})]}, "set warp")])
def test_bad_arguments(compiler, tmp_path, change, argument):
    arguments = {"layers": LAYERS, "archs": ["sm_90"], **change}
    with pytest.raises(ArgumentError) as caught:
        build_pack(arguments.pop("layers"), tmp_path / "pack", arguments.pop("archs"), **arguments)
    assert caught.value.argument == argument and not (tmp_path / "pack").exists()


def test_what_is_no_pack_is_not_overwritten(compiler, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "text").write_text("mine")
    (tmp_path / "notes.zip").write_text("mine")
    for name in ("notes", "notes.zip"):
        with pytest.raises(FileError, match="no pack"):
            build_pack(LAYERS, tmp_path / name, ["sm_90"])
    assert (tmp_path / "notes.zip").read_text() == (tmp_path / "notes" / "text").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_output_that_cannot_be_written(compiler, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(FileError, match="cannot be written"):
        build_pack(LAYERS, tmp_path / "closed" / "pack", ["sm_90"])


def test_a_full_disk(compiler, output, monkeypatch):
    build_pack(LAYERS[:1], output, ["sm_90"])
    before = files_of(output)
    def full(*arguments):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(pack_build.FolderWriter, "add", full)
    monkeypatch.setattr(pack_build.ZipWriter, "add", full)
    with pytest.raises(FileError, match="No space left"):
        build_pack(LAYERS, output, ["sm_90"])
    assert open_pack(output).kernels()[0].layers == ("small",)
    assert set(files_of(output)) == set(before)


# ---- interrupted, damaged, at the same time

def test_an_interrupted_build_leaves_what_was_built(compiler, output):
    compiler.exploding = "reuse"
    layers = [NamedLayer(name="first", shape=SHAPE, algorithm="direct"),
              NamedLayer(name="second", shape=SHAPE, algorithm="reuse")]
    with pytest.raises(KeyboardInterrupt):
        build_pack(layers, output, ["sm_90"], jobs=1)
    assert [kernel.layers for kernel in open_pack(output).kernels()] == [("first",)]
    compiler.exploding = None
    assert statuses(build_pack(layers, output, ["sm_90"])) == ["up-to-date", "built"]
    assert not list(output.parent.glob("**/.aside-*"))


def test_an_interrupted_build_of_nothing_leaves_no_folder(compiler, output):
    compiler.exploding = "direct"
    layers = [NamedLayer(name="first", shape=SHAPE, algorithm="direct")]
    with pytest.raises(KeyboardInterrupt):
        build_pack(layers, output, ["sm_90"], jobs=1)
    assert not output.exists()
    compiler.exploding = None
    assert statuses(build_pack(layers, output, ["sm_90"])) == ["built"]


def _build_and_die(output):
    with pytest.MonkeyPatch.context() as patch:
        compiler = use_fake_compiler(patch, output.parent)
        patch.setattr(pack_build, "CHECKPOINT_SECONDS", 0.0)
        patch.setattr(pack_build.FolderWriter, "_move", _die_at_the_second(pack_build.FolderWriter._move))
        compiler.spilling = None
        build_pack(LAYERS, output, ["sm_90"], jobs=1)


def _die_at_the_second(move):
    calls = []

    def dying(self, work, target):
        calls.append(target)
        if len(calls) == 2:
            os._exit(9)
        move(self, work, target)

    return dying


def test_a_killed_build_leaves_a_usable_pack(compiler, tmp_path):
    output = tmp_path / "pack"
    process = multiprocessing.get_context("fork").Process(target=_build_and_die, args=(output,))
    process.start()
    process.join(60)
    assert process.exitcode == 9
    assert len(open_pack(output).kernels()) == 1 and list(output.glob(".aside-*"))
    report = build_pack(LAYERS, output, ["sm_90"])
    assert sorted(statuses(report)) == ["built", "up-to-date"]
    assert not list(output.glob(".aside-*")) and len(open_pack(output).kernels()) == 2


def test_damaged_kernels_are_built_again(compiler, tmp_path):
    output = tmp_path / "pack"
    report = build_pack(LAYERS, output, ["sm_90"])
    cubin = output / "kernels" / report.rows[0].kernel / "kernel.cubin"
    cubin.write_bytes(b"torn")
    with pytest.raises(PackError):
        open_pack(output)
    assert statuses(build_pack(LAYERS[1:], output, ["sm_90"])) == ["up-to-date"]
    assert [kernel.layers for kernel in open_pack(output).kernels()] == [("strided",)]     # sound, the torn one is out
    assert statuses(build_pack(LAYERS, output, ["sm_90"])) == ["built", "up-to-date"]
    (output / "manifest.json").write_text("{")
    with pytest.raises(PackError, match="force"):
        build_pack(LAYERS, output, ["sm_90"])
    assert (output / "manifest.json").read_text() == "{"
    assert build_pack(LAYERS, output, ["sm_90"], force=True).ok and len(open_pack(output).kernels()) == 2


def test_another_schema_is_not_overwritten(compiler, tmp_path):
    output = tmp_path / "pack"
    build_pack(LAYERS[:1], output, ["sm_90"])
    document = json.loads((output / "manifest.json").read_text())
    (output / "manifest.json").write_text(json.dumps({**document, "schema": 99}))
    with pytest.raises(PackError, match="another schema"):
        build_pack(LAYERS, output, ["sm_90"])


def test_parallel_builds_into_one_pack(compiler, output):
    layers = [NamedLayer(name=f"k{k}", shape=ConvShape(n=1, c=1, h=9, w=9, k=k, r=3, s=3)) for k in range(1, 9)]
    parts = [layers[:5], layers[3:], layers]
    reports = []
    threads = [threading.Thread(target=lambda part=part: reports.append(build_pack(part, output, ["sm_90"])))
               for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(report.ok for report in reports) and len(reports) == 3
    assert {kernel.layers[0] for kernel in open_pack(output).kernels()} == {layer.name for layer in layers}
    assert len(compiler.calls) == 8                             # the lock and the pack: each kernel once


@pytest.mark.nvcc
def test_the_real_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPCONV_CACHE_DIR", str(tmp_path / "cache"))
    report = build_pack(LAYERS, tmp_path / "pack", ["sm_80", "sm_90+PTX"], jobs=2)
    assert report.ok, report.rows
    for kernel in open_pack(tmp_path / "pack").kernels():
        built = open_pack(tmp_path / "pack").read(kernel.id)
        assert built.compiled.cubin.startswith(b"\x7fELF") and built.spec.name in built.source
        assert (built.compiled.ptx is not None) == (str(kernel.spec.arch) == "sm_90")
        assert kernel.report.entries[0].registers > 0


# ---- a form that one chip alone has

DENSE = NamedLayer(name="dense", shape=ConvShape(n=32, c=256, h=14, w=14, k=256, r=3, s=3, padding=1, dtype="float16",
                                                 layout="NHWC"))


def kernels_of(output):
    return sorted((kernel.spec.algorithm, str(kernel.spec.arch)) for kernel in open_pack(output).kernels())


@pytest.mark.thin(2)
def test_beside_a_kernel_for_one_chip_alone_stands_one_for_later_chips(compiler, output):
    report = build_pack([DENSE], output, ["sm_90"])
    assert sorted((row.algorithm, row.arch, row.status) for row in report.rows) == [
        ("mma", "sm_90", "built"), ("wgmma", "sm_90a", "built")]
    assert kernels_of(output) == [("mma", "sm_90"), ("wgmma", "sm_90a")]
    assert statuses(build_pack([DENSE], output, ["sm_90"])) == ["up-to-date", "up-to-date"]


def test_a_layer_with_another_algorithm_replaces_both(compiler, output):
    build_pack([DENSE], output, ["sm_90"])
    named = NamedLayer(name="dense", shape=DENSE.shape, algorithm="mma")
    build_pack([named], output, ["sm_90"])
    assert kernels_of(output) == [("mma", "sm_90")]
