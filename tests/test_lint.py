"""What tools say about the code itself: ruff over the whole tree, the order of imports, types where they are strict."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import typed

ROOT = Path(__file__).parents[1]
FOLDERS = ("api", "bench", "codegen", "runtime", "tests")
OURS = {"warpconv", "bench", "tests"}
BEGIN = re.compile(r"^(?:@|def |class |async def )", re.MULTILINE)      # of what a module defines


def modules() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def needs(tool: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(tool) is None, reason=f"{tool} is not installed (it is in the test extra)")


@needs("ruff")
def test_ruff_finds_nothing():
    found = subprocess.run([sys.executable, "-m", "ruff", "check", "--output-format", "concise", *FOLDERS], cwd=ROOT,
                           capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    assert found.returncode == 0, found.stdout + found.stderr


@needs("mypy")
@pytest.mark.long
def test_types_of_the_code_generator_are_complete():
    found = typed.check()
    assert found.returncode == 0, found.stdout + found.stderr


def test_class_variables_say_of_what():
    """Python 3.10 reads no types of a class with a plain ClassVar, and stored layers, packs too, are read by them."""
    plain = [f"{path.relative_to(ROOT)}:{node.lineno}" for path in modules()
             if "ClassVar" in (text := path.read_text(encoding="utf-8")) for node in ast.walk(ast.parse(text))
             if isinstance(node, ast.AnnAssign) and isinstance(node.annotation, ast.Name)
             and node.annotation.id == "ClassVar"]
    assert not plain, plain


def group(statement: ast.Import | ast.ImportFrom) -> tuple[int, bool, int, str]:
    """Where a statement stands: __future__, standard library, third party, ours, relative; in each ``import`` first."""
    level = statement.level if isinstance(statement, ast.ImportFrom) else 0
    module = (statement.module if isinstance(statement, ast.ImportFrom) else statement.names[0].name) or ""
    top = module.partition(".")[0]
    order = (4 if level else 0 if top == "__future__" else 1 if top in sys.stdlib_module_names else
             3 if top in OURS else 2)
    return order, isinstance(statement, ast.ImportFrom), -level, module


def misplaced(text: str) -> list[str]:
    """The first import of the head of a module that should stand before its predecessor, or wants a blank line."""
    head = []
    try:
        parsed = ast.parse(re.split(BEGIN, text, maxsplit=1)[0])        # much less than the whole
    except SyntaxError:     # it was split within a string
        parsed = ast.parse(text)
    for statement in parsed.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            head.append(statement)
        elif head or not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            break
    lines = text.splitlines()
    for before, after in zip(head, head[1:]):
        blank = not lines[after.lineno - 2] or lines[after.lineno - 2].startswith("#")
        if group(after) < group(before):
            return [f"{after.lineno}: {ast.unparse(after)} stands before {ast.unparse(before)}"]
        if blank != (group(after)[0] != group(before)[0]):
            return [f"{after.lineno}: one blank line between groups of imports, and none within"]
    return []


def test_imports_are_in_order():
    found = [f"{path.relative_to(ROOT)}:{each}" for path in modules() for each in misplaced(path.read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text, wrong", [
    ("import os\nimport re\nfrom ast import parse\n\nimport numpy\n\nfrom bench import a\n\nfrom . import b\n", None),
    ("import re\nimport os\n", "2: import os"), ("from ast import parse\nimport os\n", "2: import os"),
    ("import numpy\nimport os\n", "2: import os"), ("import os\nimport numpy\n", "2: one blank line"),
    ("import os\n\nimport re\n", "3: one blank line"), ("from . import a\n\nimport os\n", "3: import os")])
def test_the_order_of_imports_is_seen(text, wrong):
    found = misplaced(text)
    assert found[0].startswith(wrong) if wrong else not found


def test_no_module_defines_a_name_twice():
    """ruff's F811, which is off in tests: it takes a fixture that is imported for one that is defined again."""
    found = []
    for path in modules():
        names = Counter(re.findall(r"^(?:async def|def|class) (\w+)", path.read_text(), re.MULTILINE))
        found += [f"{path.relative_to(ROOT)}: {name}" for name, count in names.items() if count > 1]
    assert not found, "\n".join(found)
