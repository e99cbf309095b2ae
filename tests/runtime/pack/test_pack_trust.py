"""Packs and other people's files: what is overwritten and removed, and who is waited for."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import zipfile

import pytest
from click.testing import CliRunner

from tests.runtime.pack.pack_tools import LAYERS, SHAPE, use_fake_compiler
from warpconv.cli import cli
from warpconv.codegen.errors import FileError, PackError
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import owned
from warpconv.runtime.call import conv
from warpconv.runtime.layers import NamedLayer
from warpconv.runtime.pack import format as pack_format, lock
from warpconv.runtime.pack.pack import build_pack, open_pack


@pytest.fixture(autouse=True)
def compiler(monkeypatch, tmp_path):
    conv.clear()
    return use_fake_compiler(monkeypatch, tmp_path)


def tree(path):
    """Everything under a path: files with their bytes, folders, and links with where they lead."""
    if path.is_symlink():
        return os.readlink(path)
    return {p.name: tree(p) for p in path.iterdir()} if path.is_dir() else path.read_bytes()


def refused(path, error=FileError, **options):
    before = tree(path)
    with pytest.raises(error) as caught:
        build_pack(LAYERS[:1], path, ["sm_90"], **options)
    assert tree(path) == before and not list(path.parent.glob(".*"))
    return caught.value


# ---- what is not ours (D1)

def test_a_folder_with_somebody_s_manifest(tmp_path):
    app = tmp_path / "app"
    (app / "kernels" / "linux-6.1").mkdir(parents=True)
    (app / "kernels" / "linux-6.1" / "bzImage").write_text("x")
    for text in ('{"name": "my web app"}', "[]", "null", "not JSON", "{", "", '{"schema": 2, "kernels": {}}',
                 '{"schema": 2, "checksum": "", "generator": {}, "kernels": {}}',
                 '{"schema": 2, "checksum": "", "generator": {"version": "", "digest": ""}, "kernels": {"a": 3}}'):
        (app / "manifest.json").write_text(text)
        for force in (False, True):
            assert "no pack" in str(refused(app, force=force))
    (app / "manifest.json").unlink()
    assert "no pack" in str(refused(app))


def test_a_zip_with_somebody_s_manifest(tmp_path):
    path = tmp_path / "app.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", '{"name": "my web app"}')
    for force in (False, True):
        assert "no pack" in str(refused(path, force=force))
    build_pack(LAYERS[:1], tmp_path / "pack.zip", ["sm_90"])
    with zipfile.ZipFile(tmp_path / "pack.zip", "a") as archive:
        archive.writestr("notes.txt", "mine")
    assert "no pack" in str(refused(tmp_path / "pack.zip", force=True))


def test_only_what_the_old_manifest_lists_is_removed(tmp_path):
    pack = tmp_path / "pack"
    report = build_pack(LAYERS[:1], pack, ["sm_90"])
    (pack / "README").write_text("mine")
    (pack / ".aside-of-mine").write_text("mine")
    (pack / "kernels" / "linux-6.1").mkdir()
    (pack / "kernels" / "linux-6.1" / "bzImage").write_text("x")
    (pack / "kernels" / "notes").write_text("mine")
    (pack / "kernels" / report.rows[0].kernel / "notes").write_text("mine")
    mine = {path: path.read_bytes() for path in pack.rglob("*") if path.is_file() and "kernel." not in path.name
            and path.name != "manifest.json"}
    left = pack / f".aside-{'0' * 32}"
    left.mkdir()
    (left / "kernel.cu").write_text("left by a killed builder")
    other = NamedLayer(name=LAYERS[0].name, shape=LAYERS[1].shape)
    assert build_pack([other], pack, ["sm_90"]).ok
    assert len(mine) == 5 and all(path.read_bytes() == data for path, data in mine.items())
    assert not left.exists()
    assert not (pack / "kernels" / report.rows[0].kernel / "kernel.cu").exists()
    assert [kernel.layers for kernel in open_pack(pack).kernels()] == [(other.name,)]


def test_links_are_refused(tmp_path):
    pack, elsewhere = tmp_path / "pack", tmp_path / "elsewhere"
    report = build_pack(LAYERS[:1], pack, ["sm_90"])
    (elsewhere / "docs").mkdir(parents=True)
    (elsewhere / "docs" / "text").write_text("mine")
    before = tree(elsewhere)

    link = tmp_path / "link"
    link.symlink_to(pack)
    assert "link" in str(refused(link, force=True))
    dangling = tmp_path / "dangling.zip"
    dangling.symlink_to(tmp_path / "nothing")
    assert "link" in str(refused(dangling))

    os.rename(pack / "kernels", tmp_path / "kernels")
    (pack / "kernels").symlink_to(elsewhere)
    assert "link" in str(refused(pack, force=True))
    (pack / "kernels").unlink()
    os.rename(tmp_path / "kernels", pack / "kernels")

    kernel = pack / "kernels" / report.rows[0].kernel
    os.rename(kernel, tmp_path / "kernel")
    kernel.symlink_to(elsewhere)
    with pytest.raises(FileError, match="kernel's place"):
        build_pack(LAYERS[:1], pack, ["sm_90"])
    assert tree(elsewhere) == before and kernel.is_symlink()


@pytest.mark.parametrize("name", ["pack", "pack.zip"])
def test_a_folder_is_no_zip_and_a_file_no_folder(tmp_path, name):
    other = tmp_path / ("pack.zip" if name == "pack" else "pack")
    build_pack(LAYERS[:1], tmp_path / name, ["sm_90"])
    os.rename(tmp_path / name, other)
    refused(other)


@pytest.mark.parametrize("damage", ["", "{", "torn"])
def test_force_is_for_damaged_packs_of_ours(tmp_path, damage):
    pack = tmp_path / "pack"
    build_pack(LAYERS, pack, ["sm_90"])
    manifest = pack / "manifest.json"
    manifest.write_text(manifest.read_text()[:-200] if damage == "torn" else damage)
    assert "force" in str(refused(pack, PackError))
    assert build_pack(LAYERS[:1], pack, ["sm_90"], force=True).ok
    assert len(open_pack(pack).kernels()) == len(list((pack / "kernels").iterdir())) == 1


def test_force_and_a_torn_zip(tmp_path):
    path = tmp_path / "pack.zip"
    build_pack(LAYERS, path, ["sm_90"])
    path.write_bytes(path.read_bytes()[:-100])
    assert "force" in str(refused(path, PackError))
    assert build_pack(LAYERS[:1], path, ["sm_90"], force=True).ok and len(open_pack(path).kernels()) == 1
    left = tmp_path / f".pack.zip.aside-{'1' * 32}"
    left.write_bytes(b"left")
    foreign = tmp_path / f".aside-{'1' * 32}"
    foreign.write_bytes(b"another's")
    build_pack(LAYERS, path, ["sm_90"])
    assert not left.exists() and foreign.exists()


def test_a_wrong_checksum_needs_force(tmp_path):
    pack = tmp_path / "pack"
    build_pack(LAYERS[:1], pack, ["sm_90"])
    manifest = pack / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"name"', '"Name"').replace('"estimate": ', '"estimate": 1'))
    refused(pack, PackError)
    assert build_pack(LAYERS[:1], pack, ["sm_90"], force=True).ok


def test_packs_without_the_format_s_mark_are_ours(tmp_path):
    """As they were written before manifests said what they are."""
    pack = tmp_path / "pack"
    build_pack(LAYERS[:1], pack, ["sm_90"])
    document = json.loads((pack / "manifest.json").read_text())
    assert document.pop("format") == "warpconv pack" and document.pop("checksum") and pack_format.is_ours(
        {**document, "checksum": ""})
    (pack / "manifest.json").write_text(pack_format.manifest_text(document))
    assert [row.status for row in build_pack(LAYERS, pack, ["sm_90"]).rows] == ["up-to-date", "built"]


def test_what_a_killed_first_build_leaves_is_built_over(tmp_path):
    pack = tmp_path / "pack"
    build_pack(LAYERS[:1], pack, ["sm_90"])
    (pack / "manifest.json").unlink()
    assert build_pack(LAYERS[:1], pack, ["sm_90"]).ok and len(open_pack(pack).kernels()) == 1


def test_nothing_is_left_where_nothing_is_written(tmp_path):
    declined = NamedLayer(name="declined", shape=SHAPE, algorithm="channels")
    assert not build_pack([declined], tmp_path / "a" / "b" / "pack", ["sm_90"]).count("built")
    assert not (tmp_path / "a").exists()


def test_remove_folder_stays_out_of_links(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    assert not owned.remove_folder(tmp_path / "link", ["a"]) and (tmp_path / "there" / "a").exists()
    assert owned.remove_folder(tmp_path / "there", ["a"]) and owned.remove_folder(tmp_path / "there", ["a"])


# ---- the lock (D7)

def test_who_waits_is_told_for_whom(tmp_path, caplog, monkeypatch):
    pack = tmp_path / "pack"
    monkeypatch.setattr(lock, "RETRY_SECONDS", 0.01)
    waiting = threading.Thread(target=build_pack, args=(LAYERS[:1], pack, ["sm_90"]))
    with caplog.at_level(logging.WARNING, "warpconv.pack"), lock.held(pack):
        assert (tmp_path / ".pack.lock").exists()       # beside the pack: whoever may write there may hold it
        waiting.start()
        deadline = time.monotonic() + 60
        while not caplog.records and time.monotonic() < deadline:
            time.sleep(0.01)
        assert f"process {os.getpid()} on " in caplog.text and not pack.exists()
    waiting.join(60)
    assert len(open_pack(pack).kernels()) == 1 and not (tmp_path / ".pack.lock").exists()


def test_waiting_ends_with_the_holder_s_name(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "LOCK_SECONDS", 0.0)
    with lock.held(tmp_path / "pack"), pytest.raises(FileError, match=f"process {os.getpid()} on "):
        build_pack(LAYERS[:1], tmp_path / "pack", ["sm_90"])


def test_a_planted_lock_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".pack.lock").symlink_to(tmp_path / "mine")
    assert build_pack(LAYERS[:1], tmp_path / "pack", ["sm_90"]).ok
    assert (tmp_path / "mine").read_text() == "mine"


def test_one_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "RETRY_SECONDS", 0.001)
    inside, most = [], []

    def hold():
        for _ in range(20):
            with lock.held(tmp_path / "pack"):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.001)
                inside.pop()

    threads = [threading.Thread(target=hold) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(most) == 80 and max(most) == 1


# ---- zips of many kernels (D8)

def test_a_zip_s_list_is_read_once(tmp_path, monkeypatch):
    build_pack(LAYERS, tmp_path / "pack.zip", ["sm_80", "sm_90"])
    opened, real = [], zipfile.ZipFile
    monkeypatch.setattr(zipfile, "ZipFile", lambda *args, **options: opened.append(args) or real(*args, **options))
    pack = open_pack(tmp_path / "pack.zip")
    for kernel in pack.kernels():
        assert pack.read(kernel.id).source
    assert len(opened) == 1


def test_a_zip_replaced_after_opening(tmp_path):
    path = tmp_path / "pack.zip"
    build_pack(LAYERS, path, ["sm_90"])
    pack = open_pack(path)
    build_pack([NamedLayer(name="more", shape=ConvShape(c=1, h=9, w=9, k=1, r=3, s=3))], path, ["sm_90"])
    for kernel in pack.kernels():
        try:
            assert pack.read(kernel.id).compiled.cubin.startswith(b"\x7fELF")
        except PackError:
            pass


def test_the_command(tmp_path):
    """D1 as it was found."""
    app = tmp_path / "app"
    (app / "kernels" / "linux-6.1").mkdir(parents=True)
    (app / "manifest.json").write_text('{"name":"my web app"}')
    (app / "kernels" / "linux-6.1" / "bzImage").write_text("x")
    before = tree(app)
    command = ["build", "--input", "1,1,8,8", "--filter", "1,3,3", "--arch", "sm_90", "-o"]
    for more in ([], ["--force"]):
        made = CliRunner().invoke(cli, [*command, str(app), *more])
        assert made.exit_code != 0 and isinstance(made.exception, SystemExit) and "no pack" in made.output
        assert tree(app) == before
    pack = tmp_path / "pack"
    assert CliRunner().invoke(cli, [*command, str(pack)]).exit_code == 0
    (pack / "manifest.json").write_text("{")
    assert "--force" in CliRunner().invoke(cli, [*command, str(pack)]).output
    assert CliRunner().invoke(cli, [*command, str(pack), "--force"]).exit_code == 0 and open_pack(pack).kernels()
