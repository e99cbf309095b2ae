"""What version 0.1.0 stored still opens, and is what it was: its code wrote tests/runtime/stored (2026-11-22)."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from warpconv.codegen.pitch import Pitch
from warpconv.codegen.plan import Program
from warpconv.codegen.request import Request
from warpconv.codegen.serialise import decode, encode
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, KernelSpec, Numerics
from warpconv.runtime.layers import read_layers
from warpconv.runtime.pack.pack import open_pack
from warpconv.runtime.tuning import files
from warpconv.runtime.tuning.choice import Table

STORED = Path(__file__).parent / "stored"
SHAPES = {
    "plain": ConvShape(n=2, c=3, h=20, w=40, k=4, r=3, s=3, padding=1),
    "strided": ConvShape(c=4, h=17, w=19, k=4, r=5, s=3, stride=(2, 1), padding=((2, 1), (0, 3)), dilation=(1, 2),
                         groups=2, padding_mode="constant", padding_value=0.5),
    "half": ConvShape(c=16, h=20, w=20, k=16, r=3, s=3, groups=16, dtype="float16", layout="NHWC"),
    "pixels": ConvShape(c=1, h=40, w=60, k=1, r=3, s=3, padding=1, padding_mode="reflect", dtype="uint8",
                        weight_dtype="int16", out_dtype="int16", cast="truncate"),
    "factors": ConvShape(c=1, h=60, w=70, k=1, r=9, s=9, padding=4, padding_mode="circular", separable=True),
    "chosen": ConvShape(c=1, h=64, w=64, k=1, r=5, s=5)}
BIAS_RELU = (Epilogue.BIAS, Epilogue.RELU)


def stored(name):
    return json.loads((STORED / name).read_text())


def test_layers_files():
    found = {layer.name: layer for layer in read_layers(STORED / "layers.toml")}
    assert {name: layer.shape for name, layer in found.items()} == SHAPES
    assert found["plain"].epilogue == BIAS_RELU and found["half"].numerics is Numerics.FLOAT16
    assert (found["chosen"].algorithm, dict(found["chosen"].settings)) == ("reuse", {"exchange": "packed"})


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_and_specs(name):
    was = stored("layers.json")[name]
    shape, spec = decode(ConvShape, was["shape"]), decode(KernelSpec, was["spec"])
    assert shape == SHAPES[name] and str(shape) == was["text"]
    made = KernelSpec.of(shape, algorithm=spec.algorithm, arch=spec.arch, epilogue=spec.epilogue,
                         numerics=Numerics.parse(was["numerics"]))
    assert spec == replace(made, padding_value=shape.padding_value), "a border's value was in the text"
    assert encode(shape) == was["shape"] and encode(spec) == was["spec"], "written as it was"


def test_shapes_of_arrays_with_gaps_and_of_two_types():
    pitched, mixed = (decode(ConvShape, data) for data in stored("shapes.json"))
    assert pitched == replace(SHAPES["plain"], x_pitch=Pitch(row=48, plane=960, image=2880, alignment=16))
    assert mixed == replace(SHAPES["plain"], dtype="bfloat16", out_dtype="float32")
    assert [encode(pitched), encode(mixed)] == stored("shapes.json")


def test_packs(tmp_path):
    path = shutil.copytree(STORED / "pack", tmp_path / "pack")
    document = stored("pack/manifest.json")
    pack = open_pack(path)
    assert {layer for kernel in pack.kernels() for layer in kernel.layers} == {"plain", "half", "pixels"}
    records = {record.layers[0].name: record for record in pack._manifest.records}
    for name, record in records.items():
        assert record.layers[0].shape == SHAPES[name]
        spec, meta = record.kernel.spec, document["kernels"][record.id]
        assert spec == KernelSpec.of(SHAPES[name], algorithm=spec.algorithm, arch=spec.arch, epilogue=spec.epilogue,
                                     numerics=spec.numerics)
        assert encode(spec) == meta["spec"] and decode(Program, meta["program"]) == record.kernel.program
    assert records["plain"].kernel.spec.epilogue == BIAS_RELU
    assert records["half"].kernel.spec.numerics is Numerics.FLOAT16
    assert records["pixels"].kernel.spec.numerics is Numerics.INT32
    assert pack.find(Request.of(SHAPES["pixels"]), device=None) is not None, "its text runs on the CPU device"


def test_tuning_databases():
    database = files.read(STORED / "tuning.json")
    found = {subject.shape: subject for subject in database.subjects()}
    assert set(found) == {SHAPES[name] for name in ("plain", "strided", "half")}
    assert found[SHAPES["plain"]].epilogue == BIAS_RELU and found[SHAPES["half"]].numerics is Numerics.FLOAT16
    assert Table(database, "sm_90").best(SHAPES["plain"].with_batch(8), "sm_90")[0] == "direct"
    assert {subject: database.copies[subject] for subject in found.values()} == dict.fromkeys(found.values(), 3.25)
    assert files.text_of(database) == (STORED / "tuning.json").read_text(), "a line that did not change stays as it is"
