"""Manifests that lie (D10): whatever a pack says of itself is checked before it is used."""

from __future__ import annotations

import json
import math
import os
import sys
import zipfile

import pytest

from tests.algorithms import ROWS
from tests.runtime.pack.pack_tools import LAYERS, SHAPE, use_fake_compiler
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import PackError
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import explain
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.call import conv
from warpconv.runtime.pack import check, format as pack_format
from warpconv.runtime.pack.pack import build_pack, open_pack


@pytest.fixture(autouse=True)
def compiler(monkeypatch, tmp_path):
    conv.clear()
    return use_fake_compiler(monkeypatch, tmp_path)


def first(document):
    return next(iter(document["kernels"].values()))


def argument(**fields):
    return lambda d: first(d)["program"]["arguments"][0].update(fields)


def launch(**fields):
    return lambda d: first(d)["program"]["steps"][0].update(fields)


def blocks(**fields):
    return lambda d: first(d)["program"]["steps"][0]["grid"][0].update(fields)


def nested(levels, step):
    for _ in range(levels):
        step = {"kind": "repeat", "of": "N", "index": "i", "steps": [step]}
    return step


def repeats(levels):
    def change(document):
        program = first(document)["program"]
        program["steps"] = [nested(levels, program["steps"][0])]
    return change


def lists(levels):
    def change(document):
        made = []
        for _ in range(levels):
            made = [made]
        first(document)["settings"]["a"] = made
    return change


LIES = {
    "repeats": repeats(200), "repeats of two": repeats(2), "repeat of no index": repeats(1), "lists": lists(990),
    "estimate": lambda d: next(iter(first(d)["layers"].values())).update(estimate=10**400),
    "no estimate": lambda d: next(iter(first(d)["layers"].values())).update(estimate=math.nan),
    "size": lambda d: first(d)["files"]["kernel.cu"].update(size=2**63),
    "large size": lambda d: first(d)["files"]["kernel.cu"].update(size=10**12),
    "argument": argument(name="foo"), "multiple_of": argument(multiple_of=0), "huge": argument(multiple_of=10**400),
    "c_type": argument(c_type="float; evil"), "role": argument(role="output"), "per": blocks(per=0),
    "times": blocks(times=0), "by": blocks(of=None, by=["N"]), "limit": blocks(limit=2**40),
    "unknown argument": launch(arguments=["nothing"]), "entry": launch(entry="a b"), "block": launch(block=[0, 1, 1]),
    "early": launch(early=True), "large block": launch(block=[1024, 1024, 1]), "shared": launch(shared_bytes=-1),
    "library": launch(kind="library", operation="system", operands=[]), "no steps":
    lambda d: first(d)["program"].update(steps=[]), "settings": lambda d: first(d).update(settings=5),
    "generator": lambda d: d.update(generator=5), "generator's digest": lambda d: d["generator"].update(digest=5),
    "report": lambda d: first(d)["report"].update(ptx_isa=5), "log": lambda d: first(d)["report"].update(log=[]),
    "entries": lambda d: first(d)["report"]["entries"][0].update(registers="many"),
    "size of a layer": lambda d: next(iter(first(d)["layers"].values()))["shape"].update(h=10**400),
    "workspace": lambda d: first(d)["program"].update(workspaces=[
        {"name": "x", "bytes_each": 1, "per": [], "first_step": 0, "last_step": 0}]),
}


def deep(function, *arguments):
    """The result of a function that needs more of Python's stack than pytest leaves."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 3000)
    try:
        return function(*arguments)
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.thin(2)
@pytest.mark.parametrize("lie", LIES)
def test_every_lie_is_a_pack_error(tmp_path, lie):
    pack = tmp_path / "pack"
    build_pack(LAYERS[:1], pack, ["sm_90"])
    document = json.loads((pack / "manifest.json").read_text())
    document.pop("checksum")
    LIES[lie](document)
    (pack / "manifest.json").write_text(deep(pack_format.manifest_text, document))
    with pytest.raises(PackError, match="damaged|cannot be read"):
        open_pack(pack)


def test_a_pipe_in_a_file_s_place_is_not_waited_for(tmp_path):
    for name in ("manifest.json", "kernel.cu"):
        pack = tmp_path / name
        build_pack(LAYERS[:1], pack, ["sm_90"])
        path = next(pack.rglob(name))
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(PackError, match="regular"):
            open_pack(pack)


def test_a_zip_that_unpacks_to_much(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive, \
            archive.open("manifest.json", "w", force_zip64=True) as file:
        for _ in range(100):
            file.write(b"[" * (1 << 20))
    with pytest.raises(PackError, match="longer"):
        open_pack(tmp_path / "bomb.zip")


def test_what_planners_make_passes_the_check():
    planes = [ConvShape(c=1, h=512, w=512, k=1, r=size, s=size, padding=size // 2, dtype=dtype)
              for size, dtype in ((5, "float32"), (15, "float32"), (3, "float16"), (3, "uint8"))]
    layers = [*planes, SHAPE, *dict.fromkeys(ConvShape(**rows.typical) for rows in ROWS.values())]
    made = set()
    for shape, epilogue in [(shape, ()) for shape in layers] + [(layers[0], ("residual",)), (SHAPE, ("bias", "relu"))]:
        for precision in ("float32", "tf32") if shape.dtype is DType.FLOAT32 else ("float32",):
            for candidate in explain(shape, epilogue=epilogue, precision=precision):
                if candidate.plan is not None:
                    check.check_program(candidate.plan.program, candidate.plan.spec)
                    made.add(candidate.algorithm)
    assert made >= set(ALGORITHMS), set(ALGORITHMS) - made
