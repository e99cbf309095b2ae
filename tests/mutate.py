"""``python -m tests.mutate --seed S --count 20``: what do the tests find? Faults drawn by a seed, one at a time.

A fault swaps an operator, turns a comparison, changes a number or drops a statement, in planners, templates, primitives
or the run time, each as often. It is made in a copy of the tree, in which the quick tests run until the first failure,
those of the file's own room before all others, and, where it survives, the long ones in the same order. The table (JSON
and Markdown beside each other) says which test killed it after how many seconds. ``--again FILE`` makes the faults of
an earlier table, wherever their lines stand now, ``--root`` takes another checkout, ``--stages`` other tests, one
pytest command line each: for a comparison with how it was before. ``--jobs`` tests several faults at a time, each in
its own copy.

A fault that no test finds is either one to write a test for, or changes nothing that can be seen; which, a person says.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import os
import queue
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench.trees import link_package

ROOT = Path(__file__).parents[1]
STAGES = ("-n 2 --dist worksteal", "-n 2 --dist worksteal -m long")
PRIMITIVES = ("templates/*/primitives.cuh.jinja", "templates/*/elements.cuh.jinja")
# group -> the files that it is drawn from
GROUPS = {"planner": ("codegen/**/*.py",), "template": ("templates/**/*.jinja",), "primitive": PRIMITIVES,
          "run time": ("runtime/**/*.py",)}
SWAPS = {"+": "-", "-": "+", "*": "+", "//": "*", "/": "*", "%": "//", "<<": ">>", ">>": "<<", "&": "|", "|": "&",
         "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
# in the text of a template, and in the C++ of it: an operator between blanks, a number, a statement on a line
OPERATOR = re.compile(r"(?<=[\w)\]}] )(\+|-|\*|/|<<|>>|<|<=|>|>=|==|!=|&&|\|\|)(?= [\w({\[-])")
NUMBER = re.compile(r"(?<![\w.%\"#-])(\d{1,3})(?![\w.\"])")
STATEMENT = re.compile(r"^\s+(?!return|const|int|float|unsigned|template|typedef|#|//|\{)"
                       r"[a-zA-Z_][\w.\[\]]* ?([-+*|&]?=|\().*;\s*$")


@dataclass(frozen=True)
class Fault:
    """``text`` at ``at`` of a file, which becomes ``other``; ``code``: the line, stripped, where it is ``column``."""

    group: str
    path: str
    line: int
    kind: str
    at: int
    text: str
    other: str
    code: str = ""
    column: int = 0


@dataclass(frozen=True)
class Outcome:
    """Which stage killed it (None: none did), by which test, after how many seconds of testing."""

    fault: Fault
    stage: int | None
    test: str
    seconds: float


def files(root: Path, group: str) -> list[Path]:
    """A group's files; primitives are a group of their own."""
    found, primitives = ({path for pattern in patterns for path in root.glob(pattern)}
                         for patterns in (GROUPS[group], PRIMITIVES))
    return sorted(path for path in found if path.name != "__init__.py" or path.stat().st_size > 2000
                  if (path in primitives) == (group == "primitive"))


def faults(root: Path, group: str) -> Iterator[Fault]:
    """All faults that there are in a group."""
    for path in files(root, group):
        text = path.read_text(encoding="utf-8")
        found = _in_python(text) if path.suffix == ".py" else _in_template(text)
        for kind, at, old, new in found:
            start = text.rfind("\n", 0, at) + 1
            line = text[start:(text + "\n").index("\n", at)]
            yield Fault(group, path.relative_to(root).as_posix(), text.count("\n", 0, at) + 1, kind, at, old, new,
                        line.strip(), at - start - len(line) + len(line.lstrip()))


def draw(root: Path, seed: int, count: int) -> list[Fault]:
    """Groups in turn; in a group each kind as often, at any of its lines where no fault was drawn before."""
    rng = random.Random(seed)
    all_of = {group: list(faults(root, group)) for group in GROUPS}
    chosen: list[Fault] = []
    for group in [group for _ in range(count) for group in GROUPS][:count]:
        met = {(fault.path, fault.line) for fault in chosen}
        left = [fault for fault in all_of[group] if (fault.path, fault.line) not in met]
        kind = rng.choice(sorted({fault.kind for fault in left}))
        chosen.append(rng.choice([fault for fault in left if fault.kind == kind]))
    return chosen


def moved(root: Path, fault: Fault) -> Fault | None:
    """The same fault in another state of the tree: its line, wherever it stands now, in its own file where that has it
    once; None where it is gone, or is met at several places."""
    places: list[tuple[Path, int]] = []
    for path in sorted({path for group in GROUPS for path in files(root, group)}):
        if path.suffix == Path(fault.path).suffix:
            text = path.read_text(encoding="utf-8")
            places += [(path, match.start(1)) for match in re.finditer(
                rf"^[ \t]*({re.escape(fault.code)})[ \t]*$", text, re.MULTILINE)]
    own = [place for place in places if place[0].name == Path(fault.path).name]
    places = own if len(own) == 1 else places
    if len(places) != 1:
        return None
    path, start = places[0]
    text = path.read_text(encoding="utf-8")
    at = start + fault.column
    if text[at:at + len(fault.text)] != fault.text:
        return None
    return replace(fault, path=path.relative_to(root).as_posix(), line=text.count("\n", 0, at) + 1, at=at)


def _in_python(text: str) -> Iterator[tuple[str, int, str, str]]:
    lines = text.splitlines(keepends=True)
    starts = [0, *itertools.accumulate(map(len, lines))]

    def at(line: int, column: int) -> int:      # a column counts bytes
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def segment(node: Any) -> str:
        return text[at(node.lineno, node.col_offset):at(node.end_lineno, node.end_col_offset)]

    def between(a: Any, b: Any, symbols: Sequence[str]) -> Iterator[tuple[int, str]]:
        start, end = at(a.end_lineno, a.end_col_offset), at(b.lineno, b.col_offset)
        match = re.fullmatch(r"[\s)]*(\S+?)[\s(]*", text[start:end])
        if match and match[1] in symbols:
            yield start + match.start(1), match[1]

    tree = ast.parse(text)
    skipped = set()
    for node in ast.walk(tree):
        for name in ("annotation", "returns", "decorator_list"):
            for part in ([] if not getattr(node, name, None) else [getattr(node, name)]):
                for one in part if isinstance(part, list) else [part]:
                    skipped.update(map(id, ast.walk(one)))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.BinOp) and not isinstance(node.left, ast.JoinedStr):
            for place, symbol in between(node.left, node.right, tuple(SWAPS)):
                yield "operator", place, symbol, SWAPS[symbol]
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            for place, symbol in between(node.left, node.comparators[0], COMPARISONS):
                yield "comparison", place, symbol, SWAPS[symbol]
        elif isinstance(node, ast.BoolOp):
            for place, symbol in between(node.values[0], node.values[1], ("and", "or")):
                yield "operator", place, symbol, "or" if symbol == "and" else "and"
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            if segment(node).isdigit():         # not of a text that has values in it, before Python 3.12
                yield "number", at(node.lineno, node.col_offset), segment(node), str(node.value + 1)
        elif isinstance(node, (ast.AugAssign, ast.Raise)) or isinstance(getattr(node, "value", None), ast.Call) \
                and isinstance(node, ast.Expr):
            yield "statement", at(node.lineno, node.col_offset), segment(node), "pass"


def _in_template(text: str) -> Iterator[tuple[str, int, str, str]]:
    offset, comment = 0, False
    for line in text.splitlines(keepends=True):
        comment = comment or line.lstrip().startswith("{#")
        code = "" if comment else line.split("//")[0]
        if "#}" in line:
            comment = False
        if STATEMENT.match(code) and "{" not in code:
            old = code.strip()
            yield "statement", offset + code.index(old), old, ";"
        for match in OPERATOR.finditer(code):
            if "asm" not in code and "%}" not in code[match.end():match.end() + 3]:
                kind = "comparison" if match[1] in COMPARISONS else "operator"
                yield kind, offset + match.start(1), match[1], SWAPS[match[1]]
        for match in NUMBER.finditer(code):
            yield "number", offset + match.start(1), match[1], str(int(match[1]) + 1)
        offset += len(line)


def copy(root: Path, folder: Path) -> Path:
    """The tree's files (tracked, as they are now) in a new folder, where ``warpconv`` is these and no other."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        source, target = root / name, folder / name
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode)
    link_package(folder, folder / ".package")
    return folder


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{folder / '.package'}{os.pathsep}{folder}"}


def apply(folder: Path, fault: Fault) -> str:
    """Make a fault in a copy; the file's text as it was. ValueError where the file is another by now."""
    path = folder / fault.path
    text = path.read_text(encoding="utf-8")
    at = fault.at
    if text[at:at + len(fault.text)] != fault.text:
        raise ValueError(f"{fault.path}:{fault.line} is no longer what it was")
    path.write_text(text[:at] + fault.other + text[at + len(fault.text):], encoding="utf-8")
    return text


def outcome(folder: Path, fault: Fault, stages: Sequence[str], limit: float) -> Outcome:
    """Test a fault in the copy, which is mended again."""
    text = apply(folder, fault)
    start = time.monotonic()
    try:
        room = room_of(folder, fault)
        for number, stage in enumerate(stages):
            test = killer(folder, f"{stage} {room}", limit) if room else None
            test = test or killer(folder, stage, limit)
            if test is not None:
                return Outcome(fault, number, test, round(time.monotonic() - start, 1))
        return Outcome(fault, None, "", round(time.monotonic() - start, 1))
    finally:
        (folder / fault.path).write_text(text, encoding="utf-8")


def room_of(folder: Path, fault: Fault) -> str | None:
    """The folder or file of tests that is a faulty file's own, which are run before all others: most kills take
    seconds."""
    parts = Path(fault.path).parts[:-1]
    kinds = {"templates": ("algorithms", *parts[1:2]), "codegen": parts[1:3], "runtime": ("runtime", *parts[1:2])}
    room = Path("tests", *kinds.get("".join(parts[:1]), ()))
    if len(room.parts) == 3 and (folder / room).is_dir():
        return room.as_posix()
    own = Path("tests", *parts, f"test_{Path(fault.path).stem}.py")
    return own.as_posix() if (folder / own).is_file() else None


def killer(folder: Path, stage: str, limit: float) -> str | None:
    """The first test that fails, or in words what else ended the run; None where all pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--seed", "1", *shlex.split(stage)]
    try:
        done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True,
                              timeout=limit)
    except subprocess.TimeoutExpired:
        return f"took more than {limit:.0f} s"
    if done.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)(?: - |$)", done.stdout, re.MULTILINE)
    return failed[1] if failed else f"pytest ended with {done.returncode}"


def table(outcomes: Sequence[Outcome], seed: int | None, stages: Sequence[str]) -> str:
    """The outcomes as Markdown."""
    names = ["quick", "long", *map(str, range(2, len(stages)))][:len(stages)]
    lines = [f"Seed {seed}; " + "; ".join(f"{name}: `pytest {stage}`" for name, stage in zip(names, stages)) + ".", "",
             "| # | where | fault | killed by | tests | seconds |", "|--:|---|---|---|---|--:|"]
    for number, one in enumerate(outcomes, 1):
        fault = one.fault
        change = f"{fault.kind}: `{_short(fault.text)}` -> `{_short(fault.other)}`".replace("|", "\\|")
        stage = "none" if one.stage is None else names[one.stage]
        lines.append(f"| {number} | {fault.path}:{fault.line} ({fault.group}) | {change} | "
                     f"{one.test.replace('|', chr(92) + '|') or 'none'} | {stage} | {one.seconds:.0f} |")
    counts = [sum(one.stage == number for one in outcomes) for number in range(len(stages))]
    killed = ", ".join(f"{count} by the {name} tests" for name, count in zip(names, counts))
    alive = sum(one.stage is None for one in outcomes)
    return "\n".join([*lines, "", f"Of {len(outcomes)} faults {killed}; {alive} live."])


def _said(fault: Fault) -> str:
    return f"{fault.path}:{fault.line} {fault.kind} {_short(fault.text)} -> {_short(fault.other)}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) < 50 else text[:47] + "..."


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutate",
                                     description="Faults drawn by a seed, and what finds them.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--again", type=Path, help="a table's JSON: its faults instead of drawn ones")
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout")
    parser.add_argument("--stages", action="append", help="pytest's arguments; once for each stage")
    parser.add_argument("--limit", type=float, default=3600, help="seconds that a stage may take")
    parser.add_argument("--jobs", type=int, default=1, help="faults that are tested at a time")
    parser.add_argument("--list", action="store_true", help="only list the faults")
    parser.add_argument("--unsure", action="store_true", help="leave out the run without a fault")
    parser.add_argument("-o", "--output", type=Path, default=Path("mutations"), help="written with .json and .md")
    given = parser.parse_args(arguments)
    stages = given.stages or list(STAGES)
    if given.again:
        listed = []
        for one in json.loads(given.again.read_text(encoding="utf-8"))["outcomes"]:
            fault = Fault(**one["fault"])
            found = moved(given.root, fault)
            if found is None:
                print(f"gone, or met at several places: {_said(fault)}")
            else:
                listed.append(found)
    else:
        listed = draw(given.root, given.seed, given.count)
    if given.list:
        for fault in listed:
            print(_said(fault))
        return
    outcomes: dict[int, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="warpconv-mutations-") as scratch, ThreadPoolExecutor(given.jobs) as pool:
        os.chmod(scratch, 0o755)        # some tests take the place of a user who cannot read root's own folders
        folders = [copy(given.root, Path(scratch).resolve() / str(number)) for number in range(given.jobs)]
        free: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for folder in folders:
            free.put(folder)
        for stage in () if given.unsure else stages:
            test = killer(folders[0], stage, given.limit)
            if test is not None:
                sys.exit(f"{test} fails without a fault: pytest {stage}")

        def tested(fault: Fault) -> Outcome:
            folder = free.get()
            try:
                return outcome(folder, fault, stages, given.limit)
            finally:
                free.put(folder)

        jobs = {pool.submit(tested, fault): number for number, fault in enumerate(listed, 1)}
        for job in as_completed(jobs):      # a run that is stopped has those that are done
            one = outcomes[jobs[job]] = job.result()
            print(f"{jobs[job]}: {_said(one.fault)}: {one.test or 'lives'}, {one.seconds:.0f} s", flush=True)
            found = [outcomes[number] for number in sorted(outcomes)]
            document = {"seed": None if given.again else given.seed, "stages": stages,
                        "outcomes": [asdict(each) for each in found]}
            given.output.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            given.output.with_suffix(".md").write_text(table(found, document["seed"], stages) + "\n",
                                                       encoding="utf-8")


if __name__ == "__main__":
    main()
