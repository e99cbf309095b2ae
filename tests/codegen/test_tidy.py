"""The last step of emitting: the same program, without what it does not use."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from warpconv.codegen.options import idle, only
from warpconv.codegen.text import tidy
from warpconv.codegen.text.wrap import LONGEST, wrap

HEAD = "constexpr int ONE = 1;\nconstexpr int NONE = 0;\nconstexpr int FOUR = 4;\nusing index_t = long long;\n"


def kernel(statements: str, head: str = "") -> str:
    return f"{head}extern \"C\" __global__ void kernel(int* y, int a, int b, index_t n) {{\n{statements}\n}}\n"


def folded(expression: str) -> str:
    """What becomes of an expression that is stored."""
    text = tidy(kernel(f"    y[a] = {expression};", HEAD))
    return text.partition("y[a] = ")[2].partition(";")[0]


@pytest.mark.parametrize("expression, expected", [
    ("a * ONE", "a"), ("ONE * a", "a"), ("a / ONE", "a"), ("a % ONE + b", "b"), ("a + NONE", "a"), ("a - NONE", "a"),
    ("NONE + a", "a"), ("a * NONE + b", "b"), ("a / b * ONE", "a / b"), ("a / (b * ONE)", "a / b"),
    ("(a + ONE - 1) / ONE", "a"), ("a * FOUR", "a * FOUR"), ("FOUR + ONE", "FOUR + ONE"), ("a % FOUR % ONE", "0"),
    ("a - (ONE - 1) * b", "a"), ("a << ONE", "a << ONE"), ("-ONE * a", "-ONE * a"), ("a < ONE", "a < ONE"),
    ("f(a, (ONE) * b)", "f(a, b)"), ("1.0f * a", "1.0f * a"), ("a + 0.0f", "a + 0.0f"), ("a / ONE % FOUR", "a % FOUR"),
    ("true ? a : b", "a"), ("false ? a : b < 1 ? 2 : 3", "b < 1 ? 2 : 3"), ("true && a < b", "a < b"),
    ("false || (a < b)", "a < b"), ("!true && a", "false"), ("a && true", "a"), ("ONE - 1 + a", "a"),
    ("((int*)(y + NONE))[a]", "((int*)y)[a]"), ("2 * ONE + 1", "3"), ("a % ONE != 0 || a < b", "a < b"),
    ("a < 0 || a % ONE != 0 || b", "a < 0 || b"), ("NONE != 0", "false"),
    ("NONE != 0 + a", "NONE != a"), ("a || NONE != 0 < b", "a || NONE != 0 < b"),
    ("a || NONE != 0 * b", "a || NONE != 0")])
def test_expressions(expression, expected):
    assert folded(expression) == expected


def test_nothing_of_an_offset_keeps_its_type():
    assert folded("((index_t)a * NONE + b) * FOUR") == "(index_t)b * FOUR"
    assert folded("(n * NONE + b) * FOUR") == "(index_t)b * FOUR"
    assert folded("(a * NONE + b) * FOUR") == "b * FOUR"


def test_unused_names_go_with_their_comments():
    head = ("using index_t = int;\n\n// both of these\n__device__ __forceinline__ int one(int a) { return a; }\n"
            "__device__ __forceinline__ int two(int a) { return one(a); }\n\nstruct Pair {\n    int a, b;\n};\n"
            "constexpr int SIDE = 4;                         // of a square\n\n")
    text = tidy(kernel("    // which lane\n    const int lane = threadIdx.x, warp = lane / 32;\n\n    y[0] = a;", head))
    assert text == kernel("\n    y[0] = a;", "using index_t = int;\n\n")


def test_what_has_an_effect_stays():
    statements = "    const int got = __shfl_sync(0xffffffffu, a, 0);\n    const int left = b++;\n    y[0] = b;"
    assert "got" in tidy(kernel(statements)) and "b++" in tidy(kernel(statements))


def test_unused_parameters_go_with_their_arguments():
    head = "__device__ __forceinline__ int twice(int place, int value) { return 2 * value; }\n\n"
    text = tidy(kernel("    y[0] = twice(a + 1, b);", head))
    assert "int twice(int value) {" in text and "y[0] = twice(b);" in text


def test_a_template_of_one_instance_is_a_function():
    head = ("template <bool INSIDE>\n__device__ __forceinline__ int at(int* y, int a) {\n    if (INSIDE) {\n"
            "        return y[a];\n    } else {\n        return INSIDE || a < 4 ? y[a] : 0;\n    }\n}\n\n")
    once = tidy(kernel("    y[0] = at<false>(y, b);", head))
    assert "template" not in once and "return a < 4 ? y[a] : 0;" in once and "y[0] = at(y, b);" in once
    twice = tidy(kernel("    y[0] = at<false>(y, b) + at<true>(y, b);", head))
    assert "template <bool INSIDE>" in twice and "at<true>(y, b)" in twice


def test_constants_of_a_scope_stay_in_it():
    text = tidy(kernel("    {\n        const int k = 0;\n        y[k] = a + k;\n    }\n"
                       "    const int k = a;\n    y[k] = k;"))
    assert "y[k] = a;" in text and "y[k] = k;" in text


def test_long_lines_are_broken():
    line = "    y[0] = " + " + ".join(f"call_{i}(a, b)" for i in range(20)) + ";    // a sum\n"
    lines = wrap(line).splitlines()
    assert lines[0] == "    // a sum" and max(map(len, lines)) <= LONGEST and lines[2].startswith("        + call_")
    assert " ".join(part.strip() for part in lines[1:]) == line.partition(";")[0].strip() + ";"
    primitive = f"__device__ __forceinline__ int wc_read(int a) {{ asm(\"{'x' * 200}\"); return a; }}\n"
    assert wrap(primitive) == primitive


def test_idle_plan_values():
    @dataclass(frozen=True)
    class Options:
        walk: str = "rows"
        ahead: int = only(2, walk=("rows", "bands"))

    assert idle(Options()) == frozenset() and idle(Options(walk="planes")) == {"ahead"}
