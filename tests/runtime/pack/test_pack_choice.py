"""What runs where, and what is preferred."""

from dataclasses import replace

import pytest

from warpconv.codegen.hardware import Arch
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue
from warpconv.runtime.build.compilers import Compiled, CompilerKind
from warpconv.runtime.build.pipeline import BuiltKernel
from warpconv.runtime.pack.choice import PtxTooNew, check_ptx, cubin_runs, newest_isa, ptx_runs, ranked, serves
from warpconv.runtime.pack.format import LayerRecord, Record

SHAPE = ConvShape(n=1, c=2, h=40, w=40, k=4, r=3, s=3)


def record(arch, *, ptx=False, algorithm="direct", shape=SHAPE, estimate=1000.0, isa="8.4"):
    plan = plan_layer(shape, algorithm=algorithm, arch=arch)
    compiled = Compiled(cubin=b"", ptx=None, ptx_isa=isa if ptx else None, entries=(), log="", version="13.0",
                        compiler=CompilerKind.NVRTC, options=(), arch=arch, seconds=0.0)
    built = BuiltKernel(spec=plan.spec, settings=plan.settings(), program=plan.program, source="", compiled=compiled)
    files = {"kernel.cu": {}, "kernel.cubin": {}, **({"kernel.ptx": {}} if ptx else {})}
    return Record(f"{algorithm}-{arch}-{estimate}", {"files": files}, built, (LayerRecord("a", shape, estimate),))


def order(records, device, shape=SHAPE):
    return [(r.id, by_ptx) for r, by_ptx in ranked(records, shape, Arch.parse(device) if device else None)]


@pytest.mark.parametrize("built, device, runs", [
    ("sm_80", "sm_80", True), ("sm_80", "sm_86", True), ("sm_86", "sm_80", False), ("sm_80", "sm_90", False),
    ("sm_90", "sm_80", False), ("sm_90a", "sm_90", True), ("sm_100a", "sm_103", False), ("sm_100f", "sm_103", True),
    ("sm_103f", "sm_100", False), ("sm_100", "sm_120", False)])
def test_cubins(built, device, runs):
    assert cubin_runs(Arch.parse(built), Arch.parse(device)) is runs


@pytest.mark.parametrize("built, device, runs", [
    ("sm_80", "sm_90", True), ("sm_90", "sm_120", True), ("sm_90", "sm_89", False), ("sm_90a", "sm_90", True),
    ("sm_90a", "sm_100", False), ("sm_100f", "sm_120", False)])
def test_ptx(built, device, runs):
    assert ptx_runs(Arch.parse(built), Arch.parse(device)) is runs


def test_cubins_come_before_ptx_and_near_before_far():
    records = [record("sm_75", ptx=True), record("sm_80", ptx=True), record("sm_86"), record("sm_90", ptx=True)]
    ids = [r.id for r in records]
    assert order(records, "sm_86") == [(ids[2], False), (ids[1], False), (ids[0], True)]
    assert order(records, "sm_87") == [(ids[2], False), (ids[1], False), (ids[0], True)]
    assert order(records, "sm_100") == [(ids[3], True), (ids[1], True), (ids[0], True)]
    assert order(records, "sm_70") == []
    assert [r for r, _ in order(records, None)][0] == ids[3]        # the CPU device: as conv2d emits for it


def test_the_chip_before_the_family():
    assert [name for name, _ in order([record("sm_90"), record("sm_90a")], "sm_90")][0].startswith("direct-sm_90a")


def test_this_very_layer_then_the_estimate_then_the_order():
    other = replace(SHAPE, h=13, w=13)
    quick, slow = record("sm_90", estimate=10.0), record("sm_90", algorithm="reuse", estimate=20.0)
    elsewhere = record("sm_90", shape=other, estimate=0.001)
    assert [name for name, _ in order([slow, elsewhere, quick], "sm_90")] == [quick.id, slow.id, elsewhere.id]
    assert order([slow, elsewhere, quick], "sm_90", SHAPE.with_batch(9))[0][0] == quick.id
    assert order([slow, elsewhere, quick], "sm_90", replace(SHAPE, h=99))[0][0] == elsewhere.id
    same = [record("sm_90", estimate=10.0), record("sm_90", algorithm="reuse", estimate=10.0)]
    assert [name for name, _ in order(same, "sm_90")] == [r.id for r in same]


@pytest.mark.parametrize("change", [{"c": 4}, {"k": 8}, {"r": 5}, {"s": 5}, {"stride": 2}, {"padding": 1},
                                    {"dilation": 2}, {"groups": 2}, {"dtype": "float16"}])
def test_a_kernel_serves_what_is_baked_into_it(change):
    spec = record("sm_90").kernel.spec
    assert serves(spec, SHAPE, ()) and serves(spec, replace(SHAPE, n=7, h=33, w=5), ())
    assert not serves(spec, replace(SHAPE, **change), ())
    assert not serves(spec, SHAPE, (Epilogue.RELU,))


def test_wide_indices_serve_small_layers_too():
    huge = replace(SHAPE, n=2000, h=1000, w=1000)
    assert not serves(record("sm_90").kernel.spec, huge, ())
    wide = record("sm_90", shape=huge).kernel.spec
    assert wide.index_bits == 64 and serves(wide, huge, ()) and serves(wide, SHAPE, ())


@pytest.mark.parametrize("cuda, isa", [((11, 8), (7, 8)), ((12, 4), (8, 4)), ((12, 6), (8, 5)), ((12, 9), (8, 8)),
                                       ((13, 0), (9, 0)), ((13, 5), (9, 5)), ((14, 0), None)])
def test_isa_of_the_driver(cuda, isa):
    assert newest_isa(cuda) == isa


@pytest.mark.parametrize("isa, cuda, fine", [("8.4", (12, 4), True), ("8.5", (12, 4), False), ("9.0", (12, 9), False),
                                             ("9.5", (14, 0), True), ("9.5", None, True)])
def test_ptx_against_the_driver(isa, cuda, fine):
    made = record("sm_90", ptx=True, isa=isa)
    if fine:
        check_ptx(made, cuda, "command")
    else:
        with pytest.raises(PtxTooNew, match=f"ISA {isa}.*CUDA {cuda[0]}.{cuda[1]}.*command"):
            check_ptx(made, cuda, "command")
