"""A user's own expression for the epilogue: parsed into a small tree, and the tree written out again.

The text is Python's notation for one value: ``v`` (the output value), numbers, ``+ - * /``, the functions of FUNCTIONS,
and comparisons as the first argument of ``where``. Nothing of the text itself reaches a kernel: it is parsed by
``ast``, every node is looked up in a list, and the tree is printed anew, as canonical text and as C. All numbers are
float32.
"""

from __future__ import annotations

import ast
import math
import struct
from collections.abc import Callable, Mapping
from typing import Any

from .classes import dataclass
from .errors import ArgumentError, ArgumentTypeError

LONGEST = 200           # characters of an expression as it is given
DEEPEST = 32            # operations inside each other
MOST_NODES = 60         # numbers, names and operations

# Functions by name: how many arguments they take, and how C calls them. Those without "f" at the end are written out
# in the emitted text (templates/parts/epilogue.cuh.jinja), ``where`` is C's conditional operator.
FUNCTIONS: Mapping[str, tuple[int, str]] = {
    "abs": (1, "fabsf"), "min": (2, "minimum"), "max": (2, "maximum"), "exp": (1, "expf"), "log": (1, "logf"),
    "log2": (1, "log2f"), "sqrt": (1, "sqrtf"), "rsqrt": (1, "rsqrtf"), "tanh": (1, "tanhf"), "erf": (1, "erff"),
    "sin": (1, "sinf"), "cos": (1, "cosf"), "floor": (1, "floorf"), "ceil": (1, "ceilf"), "sigmoid": (1, "sigmoid"),
    "relu": (1, "relu"), "pow": (2, "powf"), "where": (3, "")}
WRITTEN_OUT = ("minimum", "maximum", "sigmoid", "relu")
LIGHT = ("abs", "min", "max", "floor", "ceil", "sigmoid", "relu", "where")     # few instructions, without a branch
SIGMOID = ("wc_exp2", "wc_reciprocal", "sigmoid")      # what sigmoid is written with, and itself

NEGATE = "negate"
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_BINDS = {"+": 1, "-": 1, "*": 2, "/": 2, NEGATE: 3}        # how tightly, in C as in Python; comparisons least of all
_ATOM = 4

ALLOWED = ("v, numbers, + - * /, where(a < b, x, y) with < <= > >= == !=, and "
           + ", ".join(name for name in FUNCTIONS if name != "where"))


@dataclass(frozen=True)
class Value:
    """The output value, ``v``."""


@dataclass(frozen=True)
class Number:
    """A float32 constant, not negative."""

    value: float


@dataclass(frozen=True)
class Apply:
    """An operator ("+", "-", "*", "/", NEGATE, a comparison) or a function of FUNCTIONS, applied."""

    operation: str
    operands: tuple[Node, ...]


Node = Value | Number | Apply


def parse(text: str, argument: str = "epilogue") -> Node:
    """The tree of an expression's text.

    Raises ArgumentTypeError for what is no text; ArgumentError, naming the part that is not allowed and listing what
    is, for everything else.
    """
    if not isinstance(text, str):
        raise ArgumentTypeError("an expression is text", argument=argument, value=text, hint="'v * sigmoid(v)'")
    if len(text) > LONGEST:
        raise ArgumentError(f"the expression has {len(text)} characters", argument=argument, value=text,
                            hint=f"at most {LONGEST}")
    try:
        if not text.isascii():
            raise ValueError("it has letters beyond ASCII")
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error) or "it is nested too deeply"
        raise ArgumentError(f"this is no expression: {reason}", argument=argument, value=text,
                            hint=f"allowed are {ALLOWED}") from None
    node = _Reader(text.strip(), argument).read(tree.body)
    if (nodes := _count(node)) > MOST_NODES:
        raise ArgumentError(f"the expression has {nodes} parts", argument=argument, value=text,
                            hint=f"at most {MOST_NODES}")
    return node


def text_of(node: Node) -> str:
    """The canonical text: equal trees give equal text, and parse() gives the tree back."""
    return _write(node, _PYTHON)[0]


def c_text(node: Node, value: str = "value") -> str:
    """The expression in CUDA C++, of a float variable called ``value``."""
    return _write(node, _Notation(value=value, number=c_number, call=lambda name: FUNCTIONS[name][1],
                                  where=lambda condition, a, b: f"({condition} ? {a} : {b})"))[0]


def evaluate(node: Node, value: Any, operations: Mapping[str, Callable[..., Any]]) -> Any:
    """The expression at ``value``. ``operations`` has a function for each operator, NEGATE, comparison and name of
    FUNCTIONS that occurs, and "number", which makes an operand of a float."""
    if isinstance(node, Value):
        return value
    if isinstance(node, Number):
        return operations["number"](node.value)
    return operations[node.operation](*(evaluate(operand, value, operations) for operand in node.operands))


def helpers(node: Node) -> tuple[str, ...]:
    """Those of WRITTEN_OUT that the expression's C text calls, in that order, and what they call."""
    used = _operations(node)
    called = {FUNCTIONS[name][1] for name in used if name in FUNCTIONS}
    return tuple(part for name in WRITTEN_OUT if name in called for part in (SIGMOID if name == "sigmoid" else (name,)))


def calls(node: Node) -> bool:
    """Whether a function of CUDA's library is called, or a division is, which take registers of their own."""
    return not _operations(node).isdisjoint({"/", *FUNCTIONS} - set(LIGHT))


def float32(value: Any, argument: str, what: str = "number") -> float:
    """``value`` rounded to float32, as a float; no minus zero. Raises ArgumentTypeError or ArgumentError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentTypeError(f"the {what} must be a real number", argument=argument, value=value)
    rounded = _nearest(value)
    if not math.isfinite(rounded):
        raise ArgumentError(f"the {what} is no finite float32", argument=argument, value=value,
                            hint="magnitudes up to 3.4e38")
    return rounded + 0.0


def number_text(value: float) -> str:
    """A float32 by the fewest digits that read back the same, as '6.0' or '1e-05'."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if _nearest(float(text)) == value:
            break
    return repr(float(text)).replace("e+", "e")


def _nearest(value: float | int) -> float:
    """The nearest float32; infinite beyond the largest."""
    try:
        nearest: float = struct.unpack("<f", struct.pack("<f", value))[0]
        return nearest
    except (OverflowError, struct.error):
        return math.inf


def c_number(value: float) -> str:
    """A float32 as a C literal."""
    return f"{number_text(value)}f"


@dataclass(frozen=True)
class _Notation:
    """How the leaves and calls of a tree are written; operators are the same in Python and C."""

    value: str
    number: Callable[[float], str]
    call: Callable[[str], str]
    where: Callable[[str, str, str], str]


_PYTHON = _Notation(value="v", number=number_text, call=lambda name: name,
                    where=lambda condition, a, b: f"where({condition}, {a}, {b})")


def _write(node: Node, notation: _Notation) -> tuple[str, int]:
    """Text, and how tightly its outermost operation binds."""
    if isinstance(node, Value):
        return notation.value, _ATOM
    if isinstance(node, Number):
        return notation.number(node.value), _ATOM
    parts = [_write(operand, notation) for operand in node.operands]
    if node.operation == "where":
        return notation.where(*(text for text, _ in parts)), _ATOM
    if node.operation in FUNCTIONS:
        return f"{notation.call(node.operation)}({', '.join(text for text, _ in parts)})", _ATOM
    binds = _BINDS.get(node.operation, 0)
    if node.operation == NEGATE:
        text, inner = parts[0]
        return (f"-{text}" if inner > binds else f"-({text})"), binds         # two minus signs in a row decrement in C
    # operators group from the left: on the right an equally strong one needs parentheses
    (left, left_binds), (right, right_binds) = parts
    left = left if left_binds >= binds else f"({left})"
    right = right if right_binds > binds else f"({right})"
    return f"{left} {node.operation} {right}", binds


def _count(node: Node) -> int:
    return 1 + (sum(map(_count, node.operands)) if isinstance(node, Apply) else 0)


def _operations(node: Node) -> set[str]:
    if not isinstance(node, Apply):
        return set()
    return {node.operation}.union(*map(_operations, node.operands))


class _Reader:
    """From Python's tree to ours; what is not in a list above is refused."""

    def __init__(self, text: str, argument: str):
        self._text = text
        self._argument = argument

    def read(self, node: ast.AST, depth: int = 0) -> Node:
        if depth > DEEPEST:
            raise ArgumentError("the expression is nested too deeply", argument=self._argument, value=self._text,
                                hint=f"at most {DEEPEST} operations inside each other")
        if isinstance(node, ast.Constant):
            return self._number(node)
        if isinstance(node, ast.Name):
            if node.id == "v":
                return Value()
            raise self._refused(node, "an unknown name")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            operand = self.read(node.operand, depth + 1)
            return Apply(NEGATE, (operand,)) if isinstance(node.op, ast.USub) else operand
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return Apply(_BINARY[type(node.op)], (self.read(node.left, depth + 1), self.read(node.right, depth + 1)))
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.Compare):
            raise self._refused(node, "a comparison outside the first argument of where()")
        raise self._refused(node, "not allowed here")

    def _number(self, node: ast.Constant) -> Number:
        if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
            raise self._refused(node, "no number")
        return Number(float32(node.value, self._argument, f"number {self._part(node)!r}"))

    def _call(self, node: ast.Call, depth: int) -> Node:
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            raise self._refused(node.func, "an unknown function")
        name, (count, _) = node.func.id, FUNCTIONS[node.func.id]
        if node.keywords or len(node.args) != count:
            raise self._refused(node, f"{name} takes {count} argument{'s' if count > 1 else ''}")
        if name == "where":
            condition, *others = node.args
            return Apply(name, (self._comparison(condition, depth + 1),
                                *(self.read(other, depth + 1) for other in others)))
        return Apply(name, tuple(self.read(part, depth + 1) for part in node.args))

    def _comparison(self, node: ast.AST, depth: int) -> Node:
        if not isinstance(node, ast.Compare) or len(node.ops) != 1 or type(node.ops[0]) not in _COMPARISONS:
            raise self._refused(node, "the first argument of where() is one comparison")
        return Apply(_COMPARISONS[type(node.ops[0])], (self.read(node.left, depth + 1),
                                                       self.read(node.comparators[0], depth + 1)))

    def _part(self, node: ast.AST) -> str:
        return ast.get_source_segment(self._text, node) or type(node).__name__

    def _refused(self, node: ast.AST, reason: str) -> ArgumentError:
        return ArgumentError(f"{self._part(node)!r} in the expression: {reason}", argument=self._argument,
                             value=self._text, hint=f"allowed are {ALLOWED}")
