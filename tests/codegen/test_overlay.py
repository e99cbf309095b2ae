"""Templates that a person lays over warpconv's change text, key and banner; without them all is as it was."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pytest
from click.testing import CliRunner

import warpconv
from warpconv.cli import cli
from warpconv.codegen.errors import ArgumentError, FileError
from warpconv.codegen.serialise import plan_digest, plan_identity
from warpconv.codegen.templates import Overlay
from warpconv.runtime import env
from warpconv.runtime.build.pipeline import Text
from warpconv.runtime.call import conv

SHAPE = warpconv.ConvShape(c=1, h=9, w=9, k=1, r=3, s=3)
PLAN = warpconv.plan_layer(SHAPE, algorithm="direct")
NAME = "direct/kernel_nchw.cu.jinja"
SOURCE = resources.files("warpconv.templates").joinpath(NAME).read_text(encoding="utf-8")
STORE = 'finished(spec.epilogue, "acc_k"'      # what an output is made of


@pytest.fixture
def folder(tmp_path):
    """An overlay whose kernel has one line more, which stays in what is emitted."""
    (tmp_path / "direct").mkdir()
    write(tmp_path, SOURCE)
    return tmp_path


def write(folder, source):
    (folder / NAME).write_text(source + "// laid over\n", encoding="utf-8")


def test_text_key_and_banner_change(folder):
    before = warpconv.render(PLAN).text
    made, overlay = warpconv.render(PLAN, templates=folder), Overlay.of(folder)
    head, body = made.text.split("#", 1)
    assert body == before.split("#", 1)[1] + "// laid over\n"
    assert overlay.digest in head and "laid over" in head and "--templates FOLDER" in head
    assert str(folder) not in made.text
    assert plan_digest(PLAN, overlay) != plan_digest(PLAN) and "templates" not in plan_identity(PLAN)
    assert warpconv.render(PLAN).text == before == warpconv.render(PLAN, templates=None).text
    write(folder, SOURCE + "// and edited\n")
    assert Overlay.of(folder).digest != overlay.digest
    assert "and edited" in warpconv.render(PLAN, templates=str(folder)).text


def test_the_switch_reaches_keys_and_texts(folder):
    before = Text.of(PLAN)
    with env.scope(templates=folder):
        text = Text.of(PLAN)
        assert text.render().endswith("// laid over\n") and "--templates FOLDER" in text.command()
    assert text.identity == {**before.identity, "templates": Overlay.of(folder).digest}
    assert Text.of(PLAN).identity == before.identity and "laid over" not in before.render()


def test_a_kernel_that_was_laid_over_is_executed_as_edited(folder):
    """Also after an edit, with the same call: nothing of it is remembered by its arguments alone."""
    x, w = np.ones((1, 1, 9, 9), np.float32), np.ones((1, 1, 3, 3), np.float32)

    def of():
        return float(warpconv.conv2d(x, w, device="cpu", algorithm="direct").max())

    conv.clear()
    with env.scope(templates=folder):
        assert of() == 9
        for times in (2, 3):
            edited = SOURCE.replace(STORE, STORE.replace("acc_k", f"{times} * acc_k"))
            assert edited != SOURCE
            write(folder, edited)
            assert of() == 9 * times
    assert of() == 9


def test_fragments_of_its_own(folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "note.jinja").write_text("// from a fragment\n")
    write(folder, SOURCE + '{% include "mine/note.jinja" %}\n')
    assert "// from a fragment" in warpconv.render(PLAN, templates=folder).text


@pytest.mark.parametrize("fault, words", [
    ("{% if %}\n", "TemplateSyntaxError"), ("{{ 1 // 0 }}\n", "ZeroDivisionError"),
    ("{{ numbers.nothing }}\n", "UndefinedError"), ('{% include "mine/none.jinja" %}\n', "TemplateNotFound")])
def test_a_fault_has_its_file_and_line(folder, fault, words):
    write(folder, SOURCE + fault)
    with pytest.raises(FileError) as error:
        warpconv.render(PLAN, templates=folder)
    assert words in str(error.value) and f"{NAME}, line {SOURCE.count(chr(10)) + 1}" in str(error.value)


def test_a_fault_in_a_fragment_has_the_fragment_line(folder):
    (folder / "direct" / "note.jinja").write_text("{% macro note() %}\n{{ 1 // 0 }}\n{% endmacro %}\n")
    write(folder, SOURCE + '{% from "direct/note.jinja" import note %}\n{{ note() }}\n')
    with pytest.raises(FileError, match="direct/note.jinja, line 2"):
        warpconv.render(PLAN, templates=folder)


def test_folders_that_lay_nothing_over(tmp_path):
    with pytest.raises(FileError, match="a folder"):
        warpconv.render(PLAN, templates=tmp_path / "none")
    with pytest.raises(FileError, match="name of a template"):
        warpconv.render(PLAN, templates=tmp_path)
    (tmp_path / "kernel.cu.jinja").write_text(SOURCE)
    with pytest.raises(FileError, match="wide/kernel.cu.jinja"):
        warpconv.render(PLAN, templates=tmp_path)


def test_the_command_line(folder, tmp_path):
    layer = ["--input", "1,1,9,9", "--filter", "1,3,3", "--algorithm", "direct"]
    runner = CliRunner()
    done = runner.invoke(cli, ["emit", *layer, "--arch", "sm_90", "--templates", str(folder)])
    assert done.exit_code == 0 and done.stdout == warpconv.render(PLAN, templates=folder).text
    assert runner.invoke(cli, ["emit", *layer, "--arch", "sm_90"]).stdout == warpconv.render(PLAN).text
    done = runner.invoke(cli, ["inspect", *layer, "--no-measure", "--templates", str(folder)])
    assert done.exit_code == 0 and "// laid over" in done.stdout
    np.save(tmp_path / "x.npy", np.ones((1, 1, 9, 9), np.float32))
    np.save(tmp_path / "w.npy", np.ones((1, 1, 3, 3), np.float32))
    write(folder, SOURCE.replace(STORE, STORE.replace("acc_k", "5 * acc_k")))
    words = ["run", str(tmp_path / "x.npy"), str(tmp_path / "w.npy"), "-o", str(tmp_path / "y.npy"), "--device", "cpu",
             "--algorithm", "direct", "--templates", str(folder)]
    done = runner.invoke(cli, words)
    assert done.exit_code == 0 and np.load(tmp_path / "y.npy").max() == 45
    assert runner.invoke(cli, [*words, "--check"]).exit_code == 1


def test_what_was_laid_over_is_not_tuned(folder):
    with env.scope(templates=folder), pytest.raises(ArgumentError, match="WARPCONV_TEMPLATES"):
        warpconv.tune(SHAPE, device="cpu")
