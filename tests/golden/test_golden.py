"""The emitted text: as reviewed, the same in every process, and in the form that all emitted text has."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys

import pytest

from tests import cases, settings
from tests.golden import plans as golden
from tests.golden import update
from warpconv.codegen.banner import emit_command
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render

LONGEST_LINE = 120      # but for primitives, which hold inline assembly


def _plans() -> dict[str, KernelPlan]:
    return {**golden.plans(), **{case.id: case.plan() for case in cases.variants()}}


def _texts() -> dict[str, str]:
    return {name: render(plan).text for name, plan in _plans().items()}


def _some_texts() -> dict[str, str]:
    """The reviewed ones, and of the variants those in which every value occurs."""
    plans = {**golden.plans(), **{case.id: case.plan() for case in cases.every_variants_value()}}
    return {name: render(plan).text for name, plan in plans.items()}


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return _texts()


@pytest.mark.parametrize("name", golden.plans())
def test_as_reviewed(name):
    if settings.update_golden:
        update.update()
    path = golden.path_of(name)
    hint = "look at the change, then: python -m tests.golden.update"
    assert path.exists(), f"{path.name} is missing; {hint}"
    assert render(golden.plans()[name]).text == path.read_text(encoding="utf-8"), hint


def test_no_reviewed_text_without_a_plan():
    assert {path.stem for path in golden.HERE.glob("*.cu")} == set(golden.plans())


def test_the_same_bytes_in_every_process():
    script = ("import hashlib\nfrom tests.golden.test_golden import _some_texts\n"
              "for name, text in sorted(_some_texts().items()): print(name, hashlib.sha256(text.encode()).hexdigest())")
    outputs = []
    for number in ("0", "1", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": number, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        outputs.append(subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True,
                                      check=True, cwd=golden.HERE.parent.parent).stdout)
    here = "".join(f"{name} {hashlib.sha256(text.encode()).hexdigest()}\n"
                   for name, text in sorted(_some_texts().items()))
    assert outputs == [here] * 3


def test_form(texts):
    for name, text in texts.items():
        assert not re.search(r"\{\{|\}\}\}|\{%|\{#|Undefined|None", text), f"{name}: unrendered template text"
        assert "\t" not in text and text.endswith("}\n") and not text.endswith("\n\n"), name
        for number, line in enumerate(text.splitlines(), 1):
            assert line == line.rstrip(), f"{name}:{number}: trailing blanks"
            assert len(line) <= LONGEST_LINE or " wc_" in line, f"{name}:{number}: {len(line)} characters"
        assert "\n\n\n" not in text, f"{name}: two empty lines"
        code = re.sub(r"//.*", "", text)
        for opening, closing in ("{}", "()", "[]"):
            assert code.count(opening) == code.count(closing), f"{name}: {opening}{closing} not balanced"


def test_nothing_is_included_and_every_shuffle_has_a_mask(texts):
    for name, text in texts.items():
        assert "#include" not in text and "#if" not in text and "__CUDA_ARCH__" not in text, name
        assert not re.search(r"__shfl\w*(?<!_sync)\(", text), name


def test_the_entries_of_a_text_are_those_that_its_program_launches(texts):
    for name, plan in _plans().items():
        found = re.findall(r'^extern "C" __global__ void(?: __launch_bounds__\([^\n]*\))?\s+(\w+)\(', texts[name],
                           re.MULTILINE)
        assert sorted(found) == sorted(plan.program.entries), name


def test_the_banner_names_the_command_that_emits_it(texts):
    for name, plan in golden.plans().items():
        head = " ".join(line.removeprefix("//").strip().rstrip("\\").strip()
                        for line in texts[name].splitlines() if line.startswith("//"))
        assert emit_command(plan) in head, name
        assert "cost " in head and "layer " in head and "plan " in head, name


def test_no_local_array_in_the_fast_path_of_the_static_variants(texts):
    for name, plan in golden.plans().items():
        if plan.spec.algorithm in ("implicit_gemm", "im2win") or getattr(plan.numbers, "seams", None):
            continue        # their sums are arrays; test_gemm and test_seams hold that compilers keep them in registers
        exchange = plan.settings().get("exchange")
        arrays = re.findall(r"^\s+float \w+\[", texts[name], re.MULTILINE)
        assert bool(arrays) == (exchange in ("dynamic", "dynamic_local")), (name, arrays)
