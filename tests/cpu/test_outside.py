"""An algorithm from outside of the package, docs/examples/column: registered by the door that warpconv's own go
through, planned, emitted, executed, and gone again."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import warpconv
from tests import checks, reference, settings
from tests.text import check as check_text
from warpconv.codegen import registry
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, FileError, UnsupportedSpec
from warpconv.codegen.render import generator_digest
from warpconv.runtime.call import conv
from warpconv.runtime.devices.cpu import Mode

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "column"
PAGE = ROOT / "docs" / "adding-an-algorithm.md"
LAYERS = [warpconv.ConvShape(n=n, c=1, h=h, w=w, k=1, r=r, s=s, padding=padding) for n, h, w, r, s, padding in (
    (2, 21, 140, 3, 5, (1, 2)), (1, 9, 7, 3, 3, 0), (3, 1, 33, 1, 4, 0), (1, 40, 129, 7, 7, 3),
    (1, 5, 5, 5, 2, (4, 0)))]
SUMMARY = "a thread for several rows of a column; each pixel is loaded once for all"
cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


@pytest.fixture
def row(monkeypatch):
    """The example's row, not yet registered."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import warpconv_column
    yield warpconv_column.ALGORITHM
    for name in [name for name in registry.ALGORITHMS if registry.places.beside(name) is not None]:
        registry.unregister(name)
    conv.clear()


@pytest.fixture
def column(row):
    return registry.register(row)


def test_it_is_one_of_the_algorithms(column):
    before = [candidate.algorithm for candidate in warpconv.explain(LAYERS[0])]
    assert column.name in before
    plan = warpconv.plan_layer(LAYERS[0], algorithm="column", settings={"rows": 2})
    assert "--algorithm column --set rows=2" in " ".join(warpconv.render(plan).text.replace("\\\n//", "").split())
    with pytest.raises(UnsupportedSpec, match="only single planes"):
        warpconv.plan_layer(warpconv.ConvShape(c=2, h=9, w=9, k=2, r=3, s=3), algorithm="column")
    registry.unregister("column")
    with pytest.raises(ArgumentError, match="unknown algorithm"):
        warpconv.plan_layer(LAYERS[0], algorithm="column")
    assert column.name not in [candidate.algorithm for candidate in warpconv.explain(LAYERS[0])]


@pytest.mark.parametrize("shape", LAYERS, ids=str)
def test_its_text_has_the_form_of_all_texts(column, shape):
    for options in column.space(warpconv.plan_layer(shape, algorithm="column").spec):
        plan = warpconv.plan_layer(shape, algorithm="column", settings=dataclasses.asdict(options))
        check_text("column", plan, warpconv.render(plan).text)


@pytest.mark.thin(3)
@cpu
@pytest.mark.parametrize("shape", LAYERS, ids=str)
def test_its_results(column, shape):
    x, w, bias = reference.operands(shape, settings.generator(5))
    wanted = reference.expected(x, w, shape)
    wanted.check(warpconv.specialize(shape, algorithm="column", device="cpu")(x, w), str(shape))
    steps = [warpconv.Epilogue.parse(step) for step in ("bias", "relu")]
    plan = warpconv.plan_layer(shape, algorithm="column", epilogue=steps)
    reference.expected(x, w, shape, bias=bias, epilogue=tuple(steps)).check(
        checks.cpu_kernel(plan, Mode.CHECK)(x, w, bias), "every access checked")


def test_its_key_is_of_its_own_files(row, tmp_path):
    ours = generator_digest("direct")
    shutil.copytree(EXAMPLE / "warpconv_column" / "templates", tmp_path / "templates")
    digests = set()
    for line in ("", "// edited\n"):
        with open(tmp_path / "templates" / "column" / "kernel.cu.jinja", "a") as file:
            file.write(line)
        registry.register(row, tmp_path / "templates")
        digests.add(generator_digest("column"))
        assert generator_digest("direct") == ours
        registry.unregister("column")
    assert len(digests) == 2


def test_templates_are_laid_over_its_own_too(column, tmp_path):
    (tmp_path / "column").mkdir()
    source = (EXAMPLE / "warpconv_column" / "templates" / "column" / "kernel.cu.jinja").read_text()
    (tmp_path / "column" / "kernel.cu.jinja").write_text(source + "// laid over\n")
    plan = warpconv.plan_layer(LAYERS[0], algorithm="column")
    assert warpconv.render(plan, templates=tmp_path).text.endswith("// laid over\n")


def test_what_is_refused(column, tmp_path):
    with pytest.raises(ArgumentError, match="an algorithm of this name"):
        registry.register(column)
    with pytest.raises(ArgumentError, match="an algorithm of this name"):
        registry.register(dataclasses.replace(column, name="wide"))
    with pytest.raises(ArgumentTypeError):
        registry.register("column")
    for name in ("auto", "Column", "a b", ""):
        with pytest.raises(ArgumentError, match="name"):
            registry.register(dataclasses.replace(column, name=name))
    other = dataclasses.replace(column, name="other")
    with pytest.raises(ArgumentError, match="a template of this name"):
        registry.register(other)
    with pytest.raises(FileError, match="has templates"):
        registry.register(other, tmp_path)
    with pytest.raises(FileError, match="folder or package"):
        registry.register(other, tmp_path / "none")
    nowhere = {"__name__": "nowhere"}
    exec("def plan(spec, options): return None", nowhere)
    with pytest.raises(ArgumentError, match="module's file"):
        registry.register(dataclasses.replace(column, name="other", plan=nowhere["plan"]))
    with pytest.raises(ArgumentError, match="not registered"):
        registry.unregister("wide")
    assert "other" not in registry.ALGORITHMS


@cpu
def test_a_template_that_fails_says_where(row, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kernel.cu.jinja").write_text("{{ banner }}\n{{ numbers.none_such }}\n")
    (tmp_path / "column").mkdir()
    (tmp_path / "column" / "kernel.cu.jinja").write_text('{% include "mine/kernel.cu.jinja" %}')
    registry.register(row, tmp_path)
    with pytest.raises(FileError, match="mine/kernel.cu.jinja, line 2"):
        warpconv.specialize(LAYERS[0], algorithm="column", device="cpu")


def installed(folder, entry="warpconv_column:ALGORITHM"):
    """Run a line of Python where the example is installed, as pip leaves it."""
    info = folder / "warpconv_column-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: warpconv-column\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[warpconv.algorithms]\ncolumn = {entry}\n")
    shutil.copytree(EXAMPLE / "warpconv_column", folder / "warpconv_column")
    command = [sys.executable, "-m", "warpconv", "explain", "--input", "1,1,64,64", "--filter", "1,3,3", "--json"]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder,
                          env={**os.environ, "PYTHONPATH": str(folder)})


def test_an_installed_package_brings_it(tmp_path):
    done = installed(tmp_path)
    assert done.returncode == 0 and SUMMARY in done.stdout, done.stderr


def test_an_installed_package_that_is_broken_is_left_out(tmp_path):
    done = installed(tmp_path, "warpconv_column:NONE_SUCH")
    assert done.returncode == 0 and SUMMARY not in done.stdout
    assert "column of an installed package is left out" in done.stderr


def test_the_page_shows_these_files():
    page = PAGE.read_text(encoding="utf-8")
    for file in ("pyproject.toml", "warpconv_column/__init__.py", "warpconv_column/templates/column/kernel.cu.jinja"):
        text = (EXAMPLE / file).read_text(encoding="utf-8")
        assert f"\n{text}```\n" in page, file
