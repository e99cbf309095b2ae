"""What is built for others: the source distribution and what is installed hold what the tree has."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {"api/": "warpconv/", "codegen/": "warpconv/codegen/", "runtime/": "warpconv/runtime/",
           "templates/": "warpconv/templates/"}             # and where setup.cfg installs them


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no git checkout")
    return listed.stdout.split()


def build(tmp_path: Path, command: str) -> None:
    """A setuptools command in a copy of what git has: a build leaves files in its tree."""
    pytest.importorskip("setuptools")
    for name in tracked():
        if not name.startswith(("bench/", "docs/results/", "docs/gallery/")):
            (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "tree" / name).write_bytes((ROOT / name).read_bytes())
    done = subprocess.run([sys.executable, "-c", f"import setuptools; setuptools.setup(script_args={command.split()})"],
                          cwd=tmp_path / "tree", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_root_has_nothing_that_a_command_left():
    files = {".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in",
             "README.md", "pyproject.toml", "setup.cfg"}
    folders = {".ci", "api", "bench", "codegen", "docs", "runtime", "templates", "tests"}
    assert {name.split("/")[0] for name in tracked()} == files | folders


@pytest.mark.long
def test_the_source_distribution_has_tests_docs_and_changelog(tmp_path):
    build(tmp_path, f"sdist --dist-dir {tmp_path}")
    made, = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {name for name in tracked() if name.startswith((*FOLDERS, "tests/"))}
    wanted |= {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "docs/design.md", "docs/demo.jpg"}
    assert wanted <= names, sorted(wanted - names)[:9]


@pytest.mark.long
def test_what_is_installed_has_every_module_and_emits(tmp_path):
    """An editable installation finds what setup.cfg forgets."""
    site = tmp_path / "site"
    build(tmp_path, f"build --build-lib {site}")
    names = {str(path.relative_to(site)) for path in site.rglob("*")}
    wanted = {installed + name.removeprefix(folder) for folder, installed in FOLDERS.items()
              for name in tracked() if name.startswith(folder)}
    assert wanted <= names, sorted(wanted - names)[:9]
    script = ("import warpconv; print(warpconv.__file__); shape = warpconv.ConvShape(c=1, h=9, w=9, k=1, r=3, s=3); "
              "print(warpconv.render(warpconv.plan_layer(shape, arch='sm_80')).text[:2])")
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(site)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(site / "warpconv" / "__init__.py"), "//"]
