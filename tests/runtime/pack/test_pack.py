"""Packs: what is in one, and that it is verified whole before anything is used."""

import json
import os
import zipfile

import pytest

from tests.runtime.pack.pack_tools import LAYERS, SHAPE, FakeCudaBackend, use_fake_compiler, use_fake_gpu
from warpconv.codegen.errors import ArgumentError, PackError
from warpconv.runtime.call import conv
from warpconv.runtime.pack import format as pack_format
from warpconv.runtime.pack.pack import build_pack, open_pack


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    conv.clear()
    return use_fake_compiler(monkeypatch, tmp_path)


@pytest.fixture(params=["pack", "pack.zip"])
def path(request, tmp_path, compiler):
    build_pack(LAYERS, tmp_path / request.param, ["sm_80", "sm_90+PTX"])
    return tmp_path / request.param


@pytest.fixture
def folder(tmp_path, compiler):
    build_pack(LAYERS, tmp_path / "pack", ["sm_90"], ptx=True)
    return tmp_path / "pack"


# ---- what is in it

def test_round_trip(path):
    pack = open_pack(str(path))
    kernels = pack.kernels()
    assert [(k.layers[0], str(k.spec.arch), k.ptx_isa) for k in kernels] == [
        (layer.name, arch, isa) for layer in LAYERS for arch, isa in (("sm_80", None), ("sm_90", "8.4"))]
    for kernel, (layer, arch) in zip(kernels, [(layer, a) for layer in LAYERS for a in ("sm_80", "sm_90")]):
        plan, built = layer.plan(arch), pack.read(kernel.id)
        assert (built.spec, built.program, dict(built.settings)) == (plan.spec, plan.program, plan.settings())
        assert f"--arch {arch}" in built.source and built.compiled.cubin.startswith(b"\x7fELF")
        assert kernel.size == len(built.compiled.cubin) and kernel.report.entries[0].registers == 40
        assert "Compile time" not in built.compiled.log
    assert pack.generator["version"] and "4 kernels" in repr(pack)
    with pytest.raises(ArgumentError):
        pack.read("../manifest.json")


def test_layout(folder):
    document = json.loads((folder / "manifest.json").read_text())
    assert document["schema"] == 2
    assert sorted(p.name for p in folder.iterdir()) == ["kernels", "manifest.json"]
    for name, meta in document["kernels"].items():
        assert sorted(p.name for p in (folder / "kernels" / name).iterdir()) == sorted(meta["files"])
        assert str(folder) not in json.dumps(meta)


def test_a_pack_needs_no_writable_disk(path):
    os.chmod(path, 0o555 if path.is_dir() else 0o444)
    try:
        assert len(open_pack(path).kernels()) == 4
    finally:
        os.chmod(path, 0o755)


# ---- damage

def every_file(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_a_flipped_bit_anywhere_is_seen(folder):
    names = every_file(folder)
    assert len(names) == 7
    for name in names:
        file = folder / name
        sound = file.read_bytes()
        for position in {0, len(sound) // 3, len(sound) // 2, len(sound) - 1}:
            for bit in (0, 3):
                torn = bytearray(sound)
                torn[position] ^= 1 << bit
                file.write_bytes(torn)
                with pytest.raises(PackError):
                    open_pack(folder)
        for other in (sound + b"\n", sound[:-1], b""):
            file.write_bytes(other)
            with pytest.raises(PackError):
                open_pack(folder)
        file.unlink()
        with pytest.raises(PackError, match=file.name):
            open_pack(folder)
        file.write_bytes(sound)
    open_pack(folder)


def test_a_damaged_zip(tmp_path, compiler):
    path = tmp_path / "pack.zip"
    build_pack(LAYERS[:1], path, ["sm_90"])
    sound, kernels = path.read_bytes(), open_pack(path).kernels()
    refused = 0
    for position in range(0, len(sound), max(1, len(sound) // 60)):
        torn = bytearray(sound)
        torn[position] ^= 0x10
        path.write_bytes(torn)
        try:
            pack = open_pack(path)
        except PackError:
            refused += 1
        else:       # dates, attributes and the like: what is in it is as it was
            assert pack.kernels() == kernels
    assert refused > 40
    for other in (sound[:len(sound) // 2], b"", b"no zip"):
        path.write_bytes(other)
        with pytest.raises(PackError):
            open_pack(path)


def forge(folder, change, *, seal=True):
    """Rewrite the manifest with ``change`` applied and, unless told otherwise, a right checksum."""
    document = json.loads((folder / "manifest.json").read_text())
    document.pop("checksum")
    change(document)
    text = pack_format.manifest_text(document) if seal else json.dumps(document)
    (folder / "manifest.json").write_text(text)


def first(document):
    return next(iter(document["kernels"].values()))


def rename_kernel(name):
    def change(document):
        meta = document["kernels"].pop(next(iter(document["kernels"])))
        document["kernels"][name] = meta
    return change


def rename_file(name):
    def change(document):
        files = first(document)["files"]
        files[name] = files.pop("kernel.cubin")
    return change


@pytest.mark.thin(3)
@pytest.mark.parametrize("change, words", [
    (lambda d: d.update(schema=1), "another schema"), (lambda d: d.pop("schema"), "no schema"),
    (lambda d: d.pop("kernels"), "no kernels"), (lambda d: d.update(kernels=[]), "no kernels"),
    (rename_kernel("../../evil"), "no name"), (rename_kernel("/etc"), "no name"), (rename_kernel(".."), "no name"),
    (rename_kernel("a..b"), "no name"), (rename_kernel("a\\b"), "no name"), (rename_kernel(""), "no name"),
    (rename_kernel("nothing-there"), "cannot be read"),
    (rename_file("../../secret"), "lists the files"), (rename_file("kernel.so"), "lists the files"),
    (lambda d: first(d).pop("files"), "cannot be read"), (lambda d: first(d).update(files=[]), "lists the files"),
    (lambda d: first(d)["files"]["kernel.cu"].update(size=-1), "without size"),
    (lambda d: first(d)["files"]["kernel.cu"].pop("sha256"), "without size"),
    (lambda d: first(d)["spec"].update(c="three"), "cannot be read"),
    (lambda d: first(d)["program"].pop("steps"), "cannot be read"),
    (lambda d: first(d)["report"].pop("arch"), "cannot be read"),
    (lambda d: first(d).update(layers=[]), "cannot be read"),
    (lambda d: d["kernels"].update(x=3), "cannot be read")])
def test_forged_manifests(folder, change, words):
    forge(folder, change)
    with pytest.raises(PackError, match=words) as caught:
        open_pack(folder)
    assert caught.value.hint and isinstance(caught.value, OSError)


def test_a_manifest_without_its_checksum(folder):
    forge(folder, lambda document: None, seal=False)
    with pytest.raises(PackError, match="checksum"):
        open_pack(folder)
    for text in ("{", "[]", "null", "\xff", "[" * 100000):
        (folder / "manifest.json").write_text(text)
        with pytest.raises(PackError, match="manifest.json"):
            open_pack(folder)


def test_no_pack_there(tmp_path):
    with pytest.raises(PackError, match="warpconv build"):
        open_pack(tmp_path / "missing")
    with pytest.raises(PackError, match="manifest.json"):
        open_pack(tmp_path)


def test_a_zip_that_lies_about_sizes(tmp_path, compiler):
    build_pack(LAYERS[:1], tmp_path / "pack", ["sm_90"])
    forged = tmp_path / "forged.zip"
    with zipfile.ZipFile(forged, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in every_file(tmp_path / "pack"):
            data = (tmp_path / "pack" / name).read_bytes()
            archive.writestr(name, data if name.endswith((".json", ".cu")) else bytes(50 << 20))
    with pytest.raises(PackError, match="longer"):
        open_pack(forged)


def test_files_that_change_after_opening(folder, monkeypatch):
    use_fake_gpu(monkeypatch)
    pack = open_pack(folder)
    for cubin in folder.glob("kernels/*/kernel.cubin"):
        cubin.write_bytes(b"other")
    with pytest.raises(PackError, match="checksum"):
        pack.specialize(SHAPE, device="cuda")
    assert not FakeCudaBackend.made
