"""What README, CONTRIBUTING and docs show is run as it stands: each Python block alone, in a process and a directory of
its own, a page's first at each run and the others in the long one; commands and links are checked.

A comment before a block says what it needs besides warpconv and NumPy: ``<!-- needs: gpu torch -->`` (gpu, torch, jax,
onnx, dask, ...; compile: a CUDA compiler, pack: the pack that the page builds, mypackage: somebody's package; above:
the block above), ``<!-- path: FOLDER -->`` what is put on the path. Where that is not there, a block is parsed, and the
names that it takes from warpconv are looked up.
"""

from __future__ import annotations

import ast
import configparser
import functools
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

import warpconv
from warpconv.cli import cli
from warpconv.runtime.devices.cuda import contexts

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = {"python", "sh", "toml", "ini", "cuda", "c", "jinja"}
FENCED = re.compile(r"(?:^<!-- (needs|path): (.*?) -->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S)
COMMAND = re.compile(r"^    (?:\$ )?(warpconv (?!VERB)[a-z].*(?:\\\n.*)*)", re.M)
LAYER = "--input 1,1,8,8 --filter 1,3,3"


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    needs: frozenset[str]
    path: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


@functools.cache
def blocks(language: str = "") -> tuple[Block, ...]:
    found = []
    for page in PAGES:
        source = page.read_text(encoding="utf-8")
        for match in FENCED.finditer(source):
            kind, said, name, text = match.groups()
            found.append(Block(page, source[:match.start(4)].count("\n") + 1, name, text,
                               frozenset(said.split()) if kind == "needs" else frozenset(),
                               said if kind == "path" else ""))
    return tuple(block for block in found if language in ("", block.language))


def there(need: str) -> bool:
    if need == "gpu":
        return contexts.usable() is None
    if need == "compile":
        from warpconv.runtime.build import compilers
        return any(found.where for found in compilers.available().values())
    return need == "above" or importlib.util.find_spec(need) is not None


def run(text: str, folder: Path, path: str = "") -> None:
    paths = os.pathsep.join([str(ROOT / path)] * bool(path) + [os.environ.get("PYTHONPATH", "")])
    (folder / "block.py").write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, "block.py"], capture_output=True, text=True, cwd=folder,
                          env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr


def test_every_block_has_a_language_and_known_needs():
    assert [str(block) for block in blocks() if block.language not in LANGUAGES] == []
    known = {"gpu", "torch", "jax", "onnx", "compile", "pack", "mypackage", "above", "dask", "dask_cuda",
             "dask_image", "scipy"}
    assert {need for block in blocks() for need in block.needs} <= known
    for page in PAGES:
        fences = page.read_text(encoding="utf-8").count("\n```")
        assert fences == 2 * sum(block.page == page for block in blocks()), page


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_names(block):
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "warpconv":
            assert node.attr in ("codegen", "torch") or hasattr(warpconv, node.attr), node.attr


def runnable():
    """Blocks for which all is there; each page's first is quick."""
    found, met = [], set()
    for block in blocks("python"):
        if all(map(there, block.needs)):
            found.append(pytest.param(block, id=str(block), marks=pytest.mark.long if block.page in met else ()))
            met.add(block.page)
    return found


@pytest.mark.thin(8)
@pytest.mark.parametrize("block", runnable())
def test_python(block, tmp_path):
    before = [other.text for other in blocks("python") if other.page == block.page and other.line < block.line]
    run((before[-1] if "above" in block.needs else "") + block.text, tmp_path, block.path)


@pytest.mark.long
@pytest.mark.nvcc
def test_the_page_on_packs(tmp_path):
    """Its layers file, its command, its call: in this order."""
    from warpconv.runtime.build import compilers
    try:
        compilers.choose()
    except warpconv.ToolNotFound as error:
        pytest.skip(str(error))
    page = (ROOT / "docs" / "packs.md").read_text(encoding="utf-8")
    block, = (block for block in blocks("python") if "pack" in block.needs)
    (tmp_path / "layers.toml").write_text(layers_block().text, encoding="utf-8")
    command = next(words for words in map(shlex.split, COMMAND.findall(page)) if words[1] == "build")
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run(block.text, tmp_path)


def layers_block() -> Block:
    return next(block for block in blocks("toml") if block.page.name == "packs.md")


def test_configurations_are_read(tmp_path):
    for block in blocks("ini"):
        configparser.ConfigParser().read_string(block.text)
    (tmp_path / "layers.toml").write_text(layers_block().text, encoding="utf-8")
    assert [layer.name for layer in warpconv.read_layers(tmp_path / "layers.toml")] == ["conv1"]


COMMANDS = [pytest.param(words.replace("\\\n", " "), id=f"{page.name}-{i}") for page in PAGES
            for i, words in enumerate(COMMAND.findall(page.read_text(encoding="utf-8")))]
RUN = ("emit", "explain")       # verbs that need nothing of this machine


@pytest.mark.parametrize("text", COMMANDS)
def test_commands(text, tmp_path, monkeypatch):
    _, verb, *words = shlex.split(text, comments=True)
    if "..." in words:
        words[words.index("..."):words.index("...") + 1] = LAYER.split()
    command = cli.commands[verb]
    command.make_context(verb, list(words), resilient_parsing=False).close()     # all its options are known
    if verb in RUN and "FOLDER" not in words and there_are(words, tmp_path):
        monkeypatch.chdir(tmp_path)
        done = CliRunner().invoke(cli, [verb, *words])
        assert done.exit_code == 0 or "empty output" in done.stderr, done.output


def there_are(words: list[str], folder: Path) -> bool:
    """Whether the models that a command names can be had: an ONNX file is made."""
    if any(word.startswith("torchvision:") for word in words):
        return False                # tests/torch explains one
    for word in words:
        if word.endswith(".onnx"):
            if not there("onnx"):
                return False
            from bench.onnx_model import write_resnet50
            write_resnet50(folder / word, stages=(1,))
    return True


def test_shell_blocks_name_what_there_is():
    for block in blocks("sh"):
        for word in shlex.split(block.text, comments=True):
            assert not word.startswith(("tests/", "docs/")) or (ROOT / word).exists(), f"{block}: {word}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links(page):
    source = FENCED.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", source) + re.findall(r'(?:src|href)="([^"]+)"', source):
        if not re.match(r"[a-z]+://|#|mailto:", target):
            file, _, anchor = target.partition("#")
            path = page.parent / file
            assert path.exists(), f"{page.name}: {target}"
            if anchor:
                assert anchor in anchors(path), f"{page.name}: {target}"


def anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_that_are_named_exist(page):
    file = ""
    for named, name in re.findall(r"`(?:(tests/[\w/]+\.py)(?:::)?)?(test_\w+)?`", page.read_text(encoding="utf-8")):
        file = named or file
        if file and (named or name):
            assert f"def {name}" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{name}"


def description() -> Path:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return ROOT / parser["metadata"]["long_description"].removeprefix("file:").strip()


def test_what_a_package_index_shows_leads_nowhere_else():
    """There, a link or picture of a file of the repository would be dead."""
    source = description().read_text(encoding="utf-8")
    assert not re.search(r"\]\((?!https://)|src=", source)
