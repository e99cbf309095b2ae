"""Compiled templates are kept beside the templates and used for the same source alone."""

from __future__ import annotations

import contextlib
import sys

import jinja2
import pytest

import warpconv
from warpconv.codegen.render import environment
from warpconv.runtime.build.templates import CompiledTemplates, source_of


def made(folder, source, identity=b"", second=None):
    return jinja2.Environment(loader=jinja2.DictLoader({"room/kernel.jinja": source}), autoescape=False,
                              bytecode_cache=CompiledTemplates(str(folder), second, identity))


def text(folder, source="{{ 1 + x }}", **more):
    """Rendered, from a template in the folder (where it can be there)."""
    with contextlib.suppress(OSError):
        (folder / "room").mkdir(exist_ok=True)
        (folder / "room" / "kernel.jinja").write_text(source)
    return made(folder, source, **more).get_template("room/kernel.jinja").render(x=2)


@pytest.fixture
def compiled(monkeypatch):
    """How many templates were compiled, where Python writes bytecode."""
    count = []
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    real = jinja2.Environment.compile
    monkeypatch.setattr(jinja2.Environment, "compile", lambda *a, **k: count.append(a[1]) or real(*a, **k))
    return count


def test_a_template_is_compiled_once(tmp_path, compiled):
    assert [text(tmp_path) for _ in range(3)] == ["3"] * 3 and len(compiled) == 1
    kept, = tmp_path.rglob("*.jinjac")
    assert kept.parent == tmp_path / "room" / "__pycache__" and not list(tmp_path.rglob(".template-*"))


def test_another_source_or_environment_is_compiled(tmp_path, compiled):
    assert text(tmp_path) == "3" and text(tmp_path, "{{ 2 + x }}") == "4" and text(tmp_path) == "3"
    assert text(tmp_path, identity=b"other") == "3" and len(compiled) == 4


@pytest.mark.parametrize("damage", [b"", b"nonsense", slice(-40)])
def test_a_damaged_file_is_no_file(tmp_path, compiled, damage):
    text(tmp_path)
    kept, = tmp_path.rglob("*.jinjac")
    kept.write_bytes(kept.read_bytes()[damage] if isinstance(damage, slice) else damage)
    assert text(tmp_path) == "3" and len(compiled) == 2


def test_a_folder_that_cannot_be_written(tmp_path, compiled):
    (tmp_path / "room").write_text("a file where the folder would be")
    assert text(tmp_path) == text(tmp_path) == "3" and len(compiled) == 2
    second = str(tmp_path / "second")
    assert text(tmp_path, second=second) == text(tmp_path, second=second) == "3" and len(compiled) == 3
    assert [path.parent.name for path in tmp_path.rglob("*.jinjac")] == ["second"]


def test_python_may_be_told_to_write_none(tmp_path, compiled, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert text(tmp_path) == text(tmp_path) == "3" and len(compiled) == 2
    assert not list(tmp_path.rglob("*.jinjac"))
    second = str(tmp_path / "second")       # the cache directory is no place of Python's
    assert text(tmp_path, second=second) == text(tmp_path, second=second) == "3" and len(compiled) == 3
    assert [path.parent.name for path in tmp_path.rglob("*.jinjac")] == ["second"]


def test_a_template_from_elsewhere_is_not_kept_beside_ours(tmp_path, compiled):
    (tmp_path / "ours").mkdir()
    assert made(tmp_path / "ours", "{{ 1 + x }}", second=str(tmp_path / "second")).get_template("room/kernel.jinja")
    assert [path.parent.name for path in tmp_path.rglob("*.jinjac")] == ["second"]


def test_our_templates_are_kept():
    plan = warpconv.plan_layer(warpconv.ConvShape(c=1, h=9, w=9, k=1, r=3, s=3))
    assert source_of(plan, None).text == warpconv.render(plan).text
    assert isinstance(environment().bytecode_cache, CompiledTemplates)
