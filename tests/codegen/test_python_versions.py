"""Every claimed Python can read every file: by its own compiler where it is found, and by the oldest one's grammar."""

from __future__ import annotations

import configparser
import glob
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jinja2
import markupsafe
import pytest

from bench import trees

ROOT = Path(__file__).parents[2]
FOLDERS = ("api", "bench", "codegen", "docs", "runtime", "templates", "tests")
COMPILE = "import sys\nfor name in sys.stdin.read().split('\\0'):\n    compile(open(name, 'rb').read(), name, 'exec')\n"


def _metadata() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def _claimed() -> list[str]:
    """The versions of the classifiers, such as 3.10."""
    return re.findall(r"Programming Language :: Python :: (3\.\d+)", _metadata()["metadata"]["classifiers"])


def _interpreter(version: str) -> str | None:
    """An interpreter of that version that answers; pyenv's shims stand on PATH for versions that they do not start."""
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    found = [shutil.which(f"python{version}"), *sorted(glob.glob(f"{root}/versions/{version}.*/bin/python"))]
    if f"{sys.version_info[0]}.{sys.version_info[1]}" == version:
        found.insert(0, sys.executable)
    for path in filter(None, found):
        done = subprocess.run([path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True,
                              text=True, timeout=60)
        if done.stdout.strip() == version:
            return path
    return None


def _files() -> list[str]:
    files = [str(path) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 200
    return files


def _grammar(*files: str, version: str) -> subprocess.CompletedProcess:
    """ruff's parser alone: ast.parse takes no notice of a version in f-strings and subscripts."""
    target = "py" + version.replace(".", "")
    return subprocess.run([sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "E9",
                           "--target-version", target, "--output-format", "concise", *files],
                          capture_output=True, text=True, timeout=120)


def test_the_claims_agree():
    claimed = _claimed()
    assert claimed == [f"3.{minor}" for minor in range(10, 10 + len(claimed))]
    assert _metadata()["options"]["python_requires"] == f">={claimed[0]}"


def test_the_grammar_of_the_oldest_python():
    done = _grammar(*_files(), version=_claimed()[0])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("text", ["a[x, *y] = 1", "print(f\"{a[\"x\"]}\")", "print(f\"{'\\n'.join(a)}\")",
                                  "try:\n    pass\nexcept* OSError:\n    pass", "type A = int"])
def test_the_grammar_check_sees_what_is_newer(tmp_path, text):
    file = tmp_path / "newer.py"
    file.write_text(text + "\n", encoding="utf-8")
    done = _grammar(str(file), version="3.10")
    assert done.returncode == 1 and "invalid-syntax" in done.stdout, done.stdout + done.stderr


@pytest.mark.thin(6)     # 3.10, the oldest, is quick, and 3.13
@pytest.mark.parametrize("version", _claimed())
def test_the_files_compile(version):
    python = _interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    done = subprocess.run([python, "-W", "error", "-c", COMPILE], input="\0".join(_files()), capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


EMIT = """
import json
import warpconv
from warpconv.codegen.serialise import decode, encode, plan_digest
layers = [warpconv.ConvShape(c=3, h=9, w=11, k=3, r=3, s=5, groups=3, padding=1, padding_mode="reflect"),
          warpconv.ConvShape(n=2, c=64, h=14, w=14, k=64, r=3, s=3, dtype="float16", layout="NHWC")]
for layer in layers:
    plan = warpconv.plan_layer(layer, epilogue=["bias", "relu", "expr(v * 2)"])
    for value in (layer, plan.spec, plan.program, plan.options):
        assert decode(type(value), json.loads(json.dumps(encode(value)))) == value
    print(plan_digest(plan), warpconv.render(plan).digest)
"""


@pytest.mark.long
@pytest.mark.thin(5)     # 3.10, the oldest, is quick
@pytest.mark.parametrize("version", _claimed())
def test_the_same_text_everywhere(version, tmp_path, capsys):
    """A layer is planned, emitted, stored and read again; what that needs besides ours is Jinja alone."""
    python = _interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    trees.link_package(ROOT, tmp_path)
    for package in (jinja2, markupsafe):
        folder = Path(package.__file__).parent
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    done = subprocess.run([python, "-c", EMIT], capture_output=True, text=True, timeout=300, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stderr[-2000:]
    exec(EMIT, {})
    here = capsys.readouterr().out
    assert done.stdout == here and len(here.split()) == 4
