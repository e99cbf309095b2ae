"""Faults for the tests to find: where they are, and that a copy is mended again."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests import mutate
from tests.mutate import Fault

PYTHON = '''"""A text with 3 + 4 in it."""
LIMIT: int = 3


def f(a: int, b: tuple[int, 2] = (1, 2)) -> int:
    """Nor here: 5 < 6."""
    if a < LIMIT and b:
        raise ValueError(f"é {a} is less than 7")
    b.append(a + 1)
    return a // 2
'''
TEMPLATE = '''{# a comment of 5 < 6 #}
    const int i = {{ n }};
    for (int k = 0; k < 9; ++k) {       // 7 > 3
        y[k] = x[k + 1];
    }
'''


def others(found):
    return sorted((kind, old, new) for kind, _, old, new in found)


def test_faults_of_python():
    found = list(mutate._in_python(PYTHON))
    assert others(found) == [
        ("comparison", "<", "<="), ("number", "1", "2"), ("number", "1", "2"), ("number", "2", "3"),
        ("number", "2", "3"), ("number", "3", "4"), ("operator", "+", "-"), ("operator", "//", "*"),
        ("operator", "and", "or"), ("statement", "b.append(a + 1)", "pass"),
        ("statement", 'raise ValueError(f"é {a} is less than 7")', "pass")]
    for _, at, old, new in found:
        assert PYTHON[at:at + len(old)] == old
        ast.parse(PYTHON[:at] + new + PYTHON[at + len(old):])


def test_faults_of_a_template():
    found = list(mutate._in_template(TEMPLATE))
    assert others(found) == [("comparison", "<", "<="), ("number", "0", "1"), ("number", "1", "2"),
                             ("number", "9", "10"), ("operator", "+", "-"), ("statement", "y[k] = x[k + 1];", ";")]
    assert all(TEMPLATE[at:at + len(old)] == old for _, at, old, _ in found)


def test_a_seed_draws_the_same_faults_and_all_groups(tmp_path):
    for name, text in {"codegen/plan.py": PYTHON, "runtime/call/conv.py": PYTHON, mutate.PRIMITIVES[0]: TEMPLATE,
                       "templates/wide/kernel.cu.jinja": TEMPLATE}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    drawn = mutate.draw(tmp_path, 5, 8)
    assert drawn == mutate.draw(tmp_path, 5, 8) != mutate.draw(tmp_path, 6, 8)
    assert {fault.group for fault in drawn} == set(mutate.GROUPS)
    assert len({(fault.path, fault.line) for fault in drawn}) == 8
    for fault in drawn:
        text = (tmp_path / fault.path).read_text(encoding="utf-8")
        assert text[fault.at:fault.at + len(fault.text)] == fault.text


def test_a_fault_is_found_again_where_its_line_went(tmp_path):
    (tmp_path / "old" / "codegen").mkdir(parents=True)
    (tmp_path / "old" / "codegen" / "plan.py").write_text(PYTHON, encoding="utf-8")
    drawn = {fault.other: fault for fault in mutate.faults(tmp_path / "old", "planner")}
    (tmp_path / "new" / "codegen" / "wide").mkdir(parents=True)
    (tmp_path / "new" / "codegen" / "wide" / "numbers.py").write_text(
        "def g():\n    pass\n\n\n" + PYTHON.replace("b.append(a + 1)", "b.extend(a)"), encoding="utf-8")
    found = mutate.moved(tmp_path / "new", drawn["*"])
    assert (found.path, found.line, found.text, found.other) == ("codegen/wide/numbers.py", 14, "//", "*")
    mutate.apply(tmp_path / "new", found)
    assert "    return a * 2\n" in (tmp_path / "new" / "codegen" / "wide" / "numbers.py").read_text(encoding="utf-8")
    assert mutate.moved(tmp_path / "new", drawn["-"]) is None       # its line is gone


@pytest.mark.parametrize("path, room", [
    ("codegen/algorithms/wide/numbers.py", "tests/algorithms/wide"),
    ("templates/wide/x.jinja", "tests/algorithms/wide"), ("runtime/build/cache.py", "tests/runtime/build"),
    ("codegen/epilogue.py", "tests/codegen/test_epilogue.py"), ("runtime/env.py", "tests/runtime/test_env.py"),
    ("templates/parts/elements.cuh.jinja", None)])
def test_a_file_has_a_room_of_tests(path, room):
    assert mutate.room_of(mutate.ROOT, Fault("planner", path, 1, "number", 0, "1", "2")) == room


def test_this_tree_has_faults_of_every_group():
    assert all(mutate.files(mutate.ROOT, group) for group in mutate.GROUPS)


def test_a_fault_is_made_tested_and_mended(tmp_path, monkeypatch):
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    fault = Fault("planner", "a.py", 1, "number", 4, "1", "2")
    seen = []
    monkeypatch.setattr(mutate, "killer", lambda folder, stage, limit: seen.append((stage, path.read_text())) or (
        None if stage == "quick" else "tests/test_a.py::test"))
    done = mutate.outcome(tmp_path, fault, ("quick", "long"), 1.0)
    assert seen == [("quick", "x = 2\n"), ("long", "x = 2\n")] and path.read_text() == "x = 1\n"
    assert (done.stage, done.test) == (1, "tests/test_a.py::test")
    assert "| 1 | a.py:1 (planner) | number: `1` -> `2` | tests/test_a.py::test | long |" in mutate.table(
        [done], 1, ("-n 2", "-m long"))
    path.write_text("y = 2\n")
    with pytest.raises(ValueError, match="a.py:1 is no longer what it was"):
        mutate.apply(tmp_path, fault)


@pytest.mark.skipif(not (mutate.ROOT / ".git").exists(), reason="git lists the files that are copied, of a checkout")
def test_the_copy_is_what_its_tests_import(tmp_path):
    folder = mutate.copy(mutate.ROOT, tmp_path.resolve())
    script = ("import warpconv, warpconv.codegen.plan as plan, tests.cases as cases\n"
              "print(warpconv.__file__, plan.__file__, cases.__file__)")
    found = subprocess.run([sys.executable, "-c", script], cwd=folder, env=mutate.environment(folder), text=True,
                           capture_output=True, check=True).stdout.split()
    assert all(name.startswith(str(folder)) for name in found), found
