"""What is done to every output value where it is stored: a list of steps, each with a canonical text.

The text of a step is what users write, what keys, packs and tuning files hold, and what parse() reads back: equal steps
have equal text. ``v`` is the value in float32; what PyTorch has is computed as PyTorch does, NaN included:

    bias                    v + bias[k]
    relu                    v < 0 ? 0 : v
    relu6                   clamp(0, 6)
    silu                    v / (1 + exp(-v))
    gelu                    v Phi(v) = 0.5 v (1 + erf(v / sqrt(2)))
    gelu_tanh               0.5 v (1 + tanh(sqrt(2 / pi) (v + 0.044715 v^3)))
    hardswish               v clamp(v + 3, 0, 6) / 6
    clamp(LOW,HIGH)         v < LOW ? LOW : v > HIGH ? HIGH : v
    residual                v + residual[n, k, p, q]
    quantize(SCALE,ZERO)    v / SCALE + ZERO; 8-bit output rounds to nearest even and saturates where it stores
    expr(EXPRESSION)        the user's own, see ``expression``
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, ClassVar

from . import expression
from .classes import dataclass
from .errors import ArgumentError, ArgumentTypeError
from .expression import Node, c_number, c_text, float32, number_text

PLAIN = ("bias", "relu", "relu6", "silu", "gelu", "gelu_tanh", "hardswish", "residual")
FORMS = (*PLAIN, "clamp(LOW,HIGH)", "quantize(SCALE,ZERO_POINT)", "expr(EXPRESSION)")
# what others call steps that there are, or expressions say; softplus beyond 20, where float32 loses the 1, is v
SPELT = {**{name: name for name in PLAIN}, "swish": "silu", "hard_swish": "hardswish", "clip": "clamp(LOW,HIGH)",
         "hardtanh": "clamp(-1,1)", "sigmoid": "expr(sigmoid(v))", "tanh": "expr(tanh(v))",
         "leaky_relu": "expr(max(v, 0.01 * v))", "leakyrelu": "expr(max(v, 0.01 * v))",
         "elu": "expr(where(v > 0, v, exp(v) - 1))", "mish": "expr(v * tanh(where(v > 20, v, log(1 + exp(v)))))",
         "hardsigmoid": "expr(min(max(v / 6 + 0.5, 0), 1))", "hard_sigmoid": "expr(min(max(v / 6 + 0.5, 0), 1))",
         "softplus": "expr(where(v > 20, v, log(1 + exp(v))))"}
OPERANDS = ("bias", "residual")        # steps that read an array, at most once each
# log2 of Phi(-x), the normal distribution's tail, as a polynomial of x >= 0, the constant first: fitted so that the
# largest |2^p(x) - Phi(-x)| max(1, 5e-4 / Phi(-x)) on 0 <= x <= 5.5 is as small as it can be (by linear programming
# over 2000 Chebyshev points, then rounded to float32). It falls for ever; beyond 5.5 both are below 2e-8.
GELU_TAIL = (-0.9999998807907104, -1.15111243724823, -0.45914167165756226, -0.052716124802827835, 0.007401624694466591,
             -0.00040516172884963453, -7.392986299237236e-05, 1.5997329683159478e-05, -9.344556701762485e-07)
SCALES = (2.0**-126, 2.0**126)          # whose reciprocals have all their bits
ZERO_POINTS = (-2**15, 2**16 - 1)       # of 8- and 16-bit pixels, signed and not
_HINT = f"one of {', '.join(FORMS)}"


@dataclass(frozen=True)
class Epilogue:
    """A step applied to every output value where it is stored.

    ``name`` as in FORMS; ``numbers`` (float32) of clamp and quantize, ``tree`` of expr. Made by parse(), clamp(),
    quantize(), expr() or taken from the attributes (Epilogue.RELU). Raises ArgumentError or ArgumentTypeError for what
    is no step.
    """

    name: str
    numbers: tuple[float, ...] = ()
    tree: Node | None = None

    BIAS: ClassVar[Epilogue]
    RELU: ClassVar[Epilogue]
    RELU6: ClassVar[Epilogue]
    SILU: ClassVar[Epilogue]
    GELU: ClassVar[Epilogue]
    GELU_TANH: ClassVar[Epilogue]
    HARDSWISH: ClassVar[Epilogue]
    RESIDUAL: ClassVar[Epilogue]

    def __post_init__(self) -> None:
        wanted = {"clamp": 2, "quantize": 2, "expr": 0}.get(self.name, 0 if self.name in PLAIN else None)
        if wanted != len(self.numbers) or (self.tree is not None) != (self.name == "expr"):
            raise ArgumentError("unknown epilogue step", argument="epilogue", value=self.name, hint=_HINT)

    @classmethod
    def clamp(cls, low: float, high: float, *, argument: str = "epilogue") -> Epilogue:
        """Values below ``low`` become ``low``, those above ``high`` become ``high``; NaN stays NaN."""
        numbers = float32(low, argument, "lower limit"), float32(high, argument, "upper limit")
        if numbers[0] > numbers[1]:
            raise ArgumentError("the lower limit of clamp is above the upper one", argument=argument,
                                value=(low, high), hint="clamp(LOW,HIGH) with LOW <= HIGH")
        return cls("clamp", numbers)

    @classmethod
    def quantize(cls, scale: float, zero_point: int = 0, *, argument: str = "epilogue") -> Epilogue:
        """v / scale + zero_point, as torch.quantize_per_tensor before it rounds and saturates; by the float32 nearest
        to 1 / scale."""
        step = float32(scale, argument, "scale")
        if not SCALES[0] <= step <= SCALES[1]:
            raise ArgumentError("the scale of quantize is out of range", argument=argument, value=scale,
                                hint="above 0, from 1.2e-38 to 8.5e37; e.g. quantize(0.05,3)")
        if isinstance(zero_point, bool) or not float(zero_point).is_integer():
            raise ArgumentError("the zero point of quantize must be a whole number", argument=argument,
                                value=zero_point, hint="an integer of the stored type")
        if not ZERO_POINTS[0] <= zero_point <= ZERO_POINTS[1]:
            raise ArgumentError("the zero point of quantize is out of range", argument=argument, value=zero_point,
                                hint=f"between {ZERO_POINTS[0]} and {ZERO_POINTS[1]}")
        return cls("quantize", (step, float(int(zero_point))))

    @classmethod
    def expr(cls, text: str, *, argument: str = "epilogue") -> Epilogue:
        """The user's own step, an expression of ``v``: see ``expression``."""
        return cls("expr", tree=expression.parse(text, argument))

    @classmethod
    def parse(cls, value: Epilogue | str, argument: str = "epilogue") -> Epilogue:
        """A step by its text, canonical or not. Raises ArgumentError or ArgumentTypeError."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise ArgumentTypeError("a step of the epilogue is text", argument=argument, value=value, hint=_HINT)
        text = value.strip()
        name, opening, inside = text.partition("(")
        name = name.strip()
        if not opening and name in PLAIN:
            return cls(name)
        if opening and inside.endswith(")") and name in ("clamp", "quantize", "expr"):
            if name == "expr":
                return cls.expr(inside[:-1], argument=argument)
            step: Epilogue = getattr(cls, name)(*_numbers(inside[:-1], text, argument), argument=argument)
            return step
        near = SPELT.get(name.lower().replace("-", "_"))
        raise ArgumentError("unknown epilogue step", argument=argument, value=value,
                            hint=_HINT if near is None else f"write {near!r}")

    @functools.cached_property
    def value(self) -> str:
        """The canonical text."""
        if self.tree is not None:
            return f"expr({expression.text_of(self.tree)})"
        if self.name == "quantize":
            return f"quantize({number_text(self.numbers[0])},{int(self.numbers[1])})"
        return f"{self.name}({','.join(map(number_text, self.numbers))})" if self.numbers else self.name

    def __str__(self) -> str:
        return self.value

    # ---- what templates write

    @property
    def literals(self) -> tuple[str, ...]:
        """The numbers as C literals, the scale of quantize as what is multiplied with."""
        if self.name == "quantize":
            return c_number(float32(1.0 / self.numbers[0], "scale")), c_number(self.numbers[1])
        return tuple(map(c_number, self.numbers))

    @property
    def c_text(self) -> str:
        """The expression of an expr step in C, of the variable ``value``."""
        if self.tree is None:
            raise ValueError(f"{self.name} is no expression")
        return c_text(self.tree)

    @property
    def calls_functions(self) -> bool:
        """Whether the step may take registers of its own: a user's expression that calls what is not written out."""
        return self.tree is not None and expression.calls(self.tree)

    @property
    def helpers(self) -> tuple[str, ...]:
        """The functions that the step's C text calls and that the emitted text has to define."""
        if self.tree is not None:
            return expression.helpers(self.tree)
        return {"silu": expression.SIGMOID, "gelu_tanh": expression.SIGMOID,
                "gelu": ("wc_exp2", "gelu")}.get(self.name, ())

    @property
    def tail_literals(self) -> tuple[str, ...]:
        """GELU_TAIL as C literals, the highest power first."""
        return tuple(map(c_number, reversed(GELU_TAIL)))


for _name in PLAIN:
    setattr(Epilogue, _name.upper(), Epilogue(_name))


def split_steps(text: str) -> list[str]:
    """The texts of a list of steps: split at the commas that are in no parentheses, empty parts left out."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def parse_epilogue(epilogue: Iterable[Any], *, bias: bool = False, activation: str | None = None,
                   takes_bias: bool = False, residual: bool | None = None) -> tuple[Epilogue, ...]:
    """The epilogue list of a call: bias first when one is given, ``activation`` as sugar for a last step.

    ``takes_bias``: the list itself may ask for a bias, to be given later. ``residual``: whether one is given, which is
    added at the end of the list (before ``activation``) where the list does not name it; None: later. Raises
    ArgumentTypeError for what is no list, ArgumentError for unknown steps and a bias or residual that is missing or
    doubled.
    """
    if isinstance(epilogue, (str, Epilogue)):
        epilogue = (epilogue,)
    if not isinstance(epilogue, Iterable):
        raise ArgumentTypeError("epilogue must be a list of steps", argument="epilogue", value=epilogue,
                                hint="e.g. ('bias', 'relu'), or ()")
    steps = [Epilogue.parse(step) for step in epilogue]
    bias = bias or (takes_bias and Epilogue.BIAS in steps)
    if bias and Epilogue.BIAS not in steps:
        steps.insert(0, Epilogue.BIAS)
    if not bias and Epilogue.BIAS in steps:
        raise ArgumentError("the epilogue adds a bias and none is given", argument="bias", value=None,
                            hint="pass bias= or leave 'bias' out of epilogue=")
    if residual and Epilogue.RESIDUAL not in steps:
        steps.append(Epilogue.RESIDUAL)
    if residual is False and Epilogue.RESIDUAL in steps:
        raise ArgumentError("the epilogue adds a residual and none is given", argument="residual", value=None,
                            hint="pass residual=, an array like the output, or leave 'residual' out of epilogue=")
    if activation is not None:
        last = Epilogue.parse(activation, "activation")
        if last.name in OPERANDS:
            raise ArgumentError(f"{last} is no activation", argument="activation", value=activation,
                                hint="relu, silu, gelu, clamp(0,6), ..., or None")
        steps.append(last)
    for name in OPERANDS:
        if steps.count(Epilogue(name)) > 1:
            raise ArgumentError(f"{name} is added twice", argument="epilogue", value=[s.value for s in steps],
                                hint="name it once")
    return tuple(steps)


def _numbers(inside: str, text: str, argument: str) -> list[float]:
    """The numbers between a step's parentheses."""
    try:
        numbers = [float(part) for part in inside.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != 2:
        raise ArgumentError("this step takes two numbers", argument=argument, value=text, hint=_HINT)
    return numbers
