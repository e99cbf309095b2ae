"""What every algorithm gives the registry, and the parts that their planners share."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import Any, Callable, Iterable

from ..arch import REGISTER_FILE, Arch
from ..border import Border
from ..dtypes import Cast, DType, Layout
from ..errors import PlannerError, WarpconvError
from ..plan import Argument, KernelPlan, Role
from ..shape import ConvShape
from ..spec import Epilogue, KernelSpec, Numerics, Operation


_log = logging.getLogger("warpconv.plan")
_log.addHandler(logging.NullHandler())      # where nobody configured logging, the reason that a candidate gives is all

ASSUMED_IMAGES = 64         # of a layer with channels
ASSUMED_PIXELS = 256 * 256  # of single planes together, at least


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """One row of the registry.

    ``supports`` gives None, or in words why the spec cannot be served. ``defaults`` chooses plan values for a spec,
    better where a shape shows the sizes. ``plan`` raises UnsupportedSpec where plan values and spec do not go
    together. ``space`` lists the plan values worth trying (tuning). ``estimate`` is the modelled number of warp
    instructions for a whole layer. ``pace``: the issue slots that one of them takes, since the warps of some kernels
    wait for more than their turn; fitted to the layers of docs/results (planes, paper_layers, select; H200,
    2026-11-21), with wide's as 1. select() compares the product, ``slots``. ``lighter`` gives plan values that take
    less workspace than these, or None. ``by_name``: in words why select() leaves the algorithm to those who ask for
    it, empty where it does not. ``follows``: plan values that follow from the others and the epilogue, and are not
    searched; those that were measured are left out where a layer has an epilogue.

    What any of these functions raises that is no WarpconvError declines the algorithm, as a PlannerError (of
    ``supports``: as its reason), and is logged: one planner's defect never ends a call that others can serve.
    """

    name: str
    summary: str
    options: type
    supports: Callable[[KernelSpec], str | None]
    defaults: Callable[[KernelSpec, ConvShape | None], Any]
    plan: Callable[[KernelSpec, Any], KernelPlan]
    space: Callable[[KernelSpec], Iterable[Any]]
    estimate: Callable[[KernelPlan, ConvShape], float]
    pace: float = 1.0
    lighter: Callable[[KernelSpec, Any], Any | None] = lambda spec, options: None
    by_name: str = ""
    follows: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("supports", "defaults", "plan", "space", "estimate", "lighter"):
            object.__setattr__(self, name, _declining(self.name, name, getattr(self, name)))

    def slots(self, plan: KernelPlan, shape: ConvShape) -> float:
        """Modelled issue slots of a layer, for the batch that is assumed: all batches share a kernel."""
        return self.pace * self.estimate(plan, shape.with_batch(assumed_batch(shape)))


def _declining(algorithm: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` of an algorithm's row, whose failures are typed and logged."""
    if hasattr(function, "declines"):       # of a row that is made of another by replace()
        return function

    @functools.wraps(function)
    def guarded(*args: Any) -> Any:
        try:
            found = function(*args)
            return list(found) if name == "space" else found        # a generator fails as it is walked
        except WarpconvError:
            raise
        except Exception as error:
            spec = getattr(args[0], "spec", args[0])
            reason = f"its planner failed in {name} ({type(error).__name__}: {error}), which is a defect of warpconv"
            _log.warning("%s declines %s: %s", algorithm, spec, reason, exc_info=True)
            if name == "supports":
                return reason
            raise PlannerError(spec, reason, hint="please report the layer") from error

    guarded.declines = True
    return guarded


def assumed_batch(shape: ConvShape) -> int:
    """The images that a layer's choice is made for: a plane comes alone if it is large, channels come in a batch."""
    if shape.c == shape.k == 1:
        return max(1, ASSUMED_PIXELS // (shape.h * shape.w))
    return ASSUMED_IMAGES


FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
ZEROS = (Border.ZEROS,)
BORDERS = tuple(Border)


def common_refusal(spec: KernelSpec, *, dtypes: tuple[DType, ...] = (DType.FLOAT32,),
                   layouts: tuple[Layout, ...] = (Layout.NCHW,),
                   numerics: tuple[Numerics, ...] = (Numerics.FLOAT32,), borders: tuple[Border, ...] = ZEROS,
                   mixed: bool = False, residual: bool = False, separable: bool = False,
                   pitched: bool = False) -> str | None:
    """The reason why an algorithm that serves these types, layouts, arithmetic and borders cannot serve the spec, or
    None. ``mixed``: outputs of another type than the inputs are served; ``residual``: its stores read one;
    ``separable``: filters given as factors; ``pitched``: arrays with gaps."""
    for what, value, served in (("element type", spec.dtype, dtypes), ("layout", spec.layout, layouts),
                                ("arithmetic", spec.numerics, numerics), ("border", spec.padding_mode, borders)):
        if value not in served:
            return f"{what} {value.value} is not served, only {', '.join(s.value for s in served)}"
    if spec.numerics is Numerics.INT32 and spec.w_dtype.is_float:
        return f"int32 arithmetic is for filters of integers, not of {spec.w_dtype.value}"
    if not mixed and spec.out_dtype is not None:
        return f"output of {spec.y_dtype.value} from {spec.dtype.value} is not served, only of the input's type"
    if spec.separable and not separable:
        return "separable filters are not served, only whole ones"
    if spec.pitched and not pitched:
        return "arrays with gaps between their rows are not served, only dense ones"
    if spec.operation is not Operation.FORWARD:
        return f"{spec.operation.value} is not served, only forward"
    if Epilogue.RESIDUAL in spec.epilogue and not residual:
        return "its stores do not read a residual"
    return None


def integer_border(spec: KernelSpec) -> str | None:
    """The reason why integer arithmetic cannot have a border's value, or None."""
    if spec.numerics is Numerics.INT32 and spec.padding_value != int(spec.padding_value):
        return f"a border of {spec.padding_value:g} is no integer, as the arithmetic of {spec.w_dtype.value} filters is"
    return None


SIZES = ("N", "H", "W", "P", "Q")


def layer_arguments(spec: KernelSpec) -> tuple[Argument, ...]:
    """x, w, the bias and the residual if the epilogue adds them, y, and the sizes that are not baked in, of arrays with
    gaps their distances too. A residual may be y itself, and lies in memory as y does."""
    arguments = [Argument(name="x", role=Role.INPUT, c_type=spec.dtype.c_name),
                 Argument(name="w", role=Role.WEIGHT, c_type=spec.w_dtype.c_name)]
    if Epilogue.BIAS in spec.epilogue:
        arguments.append(Argument(name="bias", role=Role.BIAS, c_type=spec.bias_dtype.c_name))
    residual = Epilogue.RESIDUAL in spec.epilogue
    if residual:
        arguments.append(Argument(name="residual", role=Role.RESIDUAL, c_type=spec.y_dtype.c_name, alone=False))
    arguments.append(Argument(name="y", role=Role.OUTPUT, c_type=spec.y_dtype.c_name, alone=not residual))
    sizes = [Argument(name=name, role=Role.SIZE, c_type="int") for name in SIZES]
    if spec.pitched:        # 0 where there is nothing further
        sizes += [Argument(name=name, role=Role.SIZE, c_type="int", at_least=0) for name in distances(spec)]
    return (*arguments, *sizes)


def distances(spec: KernelSpec) -> tuple[str, ...]:
    """The names of the distances of x and y that a layout has: the channels of NHWC lie side by side."""
    apart = ("ROW", "PLANE", "IMAGE") if spec.layout is Layout.NCHW else ("ROW", "IMAGE")
    return tuple(f"{array}_{distance}" for array in "XY" for distance in apart)


def distance_demands(spec: KernelSpec, vector: int, store_vector: int) -> dict[str, dict[str, int]]:
    """What vectors ask of the distances: rows, planes and images begin at a multiple of them."""
    return {name: {"multiple_of": vector if name.startswith("X") else store_vector} for name in distances(spec)}


SATURATING_PACK = (7, 2)      # architecture from which several values become limited integers in one instruction


def packs_limited(spec: KernelSpec) -> bool:
    """Whether a word of integer outputs is made by that instruction."""
    return spec.cast is Cast.NEAREST and (spec.arch.major, spec.arch.minor) >= SATURATING_PACK


CALLED = 8          # registers of what an expression calls, beside its value: erf, exp, pow


def step_registers(spec: KernelSpec, outputs: int) -> int:
    """Registers that the epilogue takes in a thread with ``outputs`` results in work: what it adds to them is loaded
    ahead, and steps with functions need room of their own."""
    added = -(-outputs * spec.y_dtype.itemsize // 4) if Epilogue.RESIDUAL in spec.epilogue else 0
    return added + (CALLED if any(step.calls_functions for step in spec.epilogue) else 0)


def named(arguments: Iterable[Argument], *names: str) -> tuple[Argument, ...]:
    """Those of ``arguments`` that have these names, in the names' order; a name that none has (the bias of a layer
    without one) is passed over."""
    by_name = {argument.name: argument for argument in arguments}
    return tuple(by_name[name] for name in names if name in by_name)


DERIVED = 0         # a plan value that follows from the others
BANK_COPY = 1.2e6   # issue slots of a GPU while a filter that was not prepared is copied to constant memory: 1.3 us


def resident_blocks(arch: Arch, registers: int, threads: int) -> int:
    """Blocks that a multiprocessor holds when a thread has ``registers`` (given out in eights); at least 1."""
    return max(1, min(REGISTER_FILE // (-(-registers // 8) * 8), arch.resident_threads) // threads)


def largest_divisor(number: int, limit: int) -> int:
    """The largest divisor of ``number`` that is at most ``limit`` (at least 1)."""
    return next(d for d in range(min(number, max(1, limit)), 0, -1) if number % d == 0)
