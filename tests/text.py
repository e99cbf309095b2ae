"""The form that all emitted text has."""

from __future__ import annotations

import re

from tests.algorithms import EVERY
from warpconv.codegen.banner import emit_command
from warpconv.codegen.plan import KernelPlan

LONGEST_LINE = 120      # but for primitives, which hold inline assembly


def check(name: str, plan: KernelPlan, text: str) -> None:
    """AssertionError, naming the text, where it is not of that form."""
    assert not re.search(r"\{\{|\}\}\}|\{%|\{#|Undefined|None", text), f"{name}: unrendered template text"
    assert "\t" not in text and text.endswith("}\n") and not text.endswith("\n\n"), name
    for number, line in enumerate(text.splitlines(), 1):
        assert line == line.rstrip(), f"{name}:{number}: trailing blanks"
        assert len(line) <= LONGEST_LINE or " wc_" in line, f"{name}:{number}: {len(line)} characters"
    assert "\n\n\n" not in text, f"{name}: two empty lines"
    code = re.sub(r"//.*", "", text)
    for opening, closing in ("{}", "()", "[]"):
        assert code.count(opening) == code.count(closing), f"{name}: {opening}{closing} not balanced"
    assert "#include" not in text and "#if" not in text and "__CUDA_ARCH__" not in text, name
    assert not re.search(r"__shfl\w*(?<!_sync)\(", text), f"{name}: a shuffle without a mask"
    entries = re.findall(r'^extern "C" __global__ void(?: __launch_bounds__\([^\n]*\))?\s+(\w+)\(', text, re.MULTILINE)
    assert sorted(entries) == sorted(plan.program.entries), f"{name}: entries that its program does not launch"


def check_banner(name: str, plan: KernelPlan, text: str) -> None:
    """It names the command that emits the text, and says what the text is of."""
    head = " ".join(line.removeprefix("//").strip().rstrip("\\").strip()
                    for line in text.splitlines() if line.startswith("//"))
    assert emit_command(plan) in head, name
    assert "cost " in head and "layer " in head and "plan " in head, name


def check_local_arrays(name: str, plan: KernelPlan, text: str) -> None:
    """No local array in the fast path of the static variants."""
    if EVERY[plan.spec.algorithm].arrays or getattr(plan.numbers, "seams", None):
        return          # their sums are arrays; tests of each hold that they stay in registers
    exchange = plan.settings().get("exchange")
    arrays = re.findall(r"^\s+float \w+\[", text, re.MULTILINE)
    assert bool(arrays) == (exchange in ("dynamic", "dynamic_local")), (name, arrays)
