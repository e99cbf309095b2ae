"""What every algorithm gives the registry."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from . import adjoint
from .batch import assumed_batch, batch_matters
from .classes import dataclass
from .dtypes import DType
from .errors import PlannerError, WarpconvError
from .numerics import Numerics
from .plan import KernelPlan
from .shape import ConvShape
from .spec import KernelSpec, Operation

_log = logging.getLogger("warpconv.plan")
_log.addHandler(logging.NullHandler())      # where nobody configured logging, the reason that a candidate gives is all

BANK_COPY = 1.2e6   # issue slots of an H200 while a filter that was not prepared is copied to constant memory: 1.3 us


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """One row of the registry.

    ``supports`` gives None, or in words why the spec cannot be served. ``defaults`` chooses plan values for a spec,
    better where a shape shows the sizes. ``plan`` raises UnsupportedSpec where plan values and spec do not go
    together. ``space`` lists the plan values worth trying (tuning). ``estimate`` is the modelled number of warp
    instructions for a whole layer. ``pace``: the issue slots that one of them takes, since the warps of some kernels
    wait for more than their turn; fitted to the layers of docs/results (planes, paper_layers, select; H200,
    2026-11-21), with wide's as 1. ``waits``: a further factor where the batch is known (codegen/batch.py): other
    algorithms' estimates are cycles there, in which waits are; fitted to 30 layers of float32 in NCHW (H100,
    2026-11-26). select() compares the product, ``slots``. ``lighter`` gives plan values that take
    less workspace than these, or None; ``leaner`` those that take fewer registers, for a kernel that spills however
    many a thread may have. ``by_name``: in words why select() leaves the algorithm to those who ask for
    it, empty where it does not. ``follows``: plan values that follow from the others and the epilogue, and are not
    searched; those that were measured are left out where a layer has an epilogue. ``operation``: what its kernels
    compute; those of a forward layer serve the data gradient, too, where it is one (adjoint.py). ``float32``: the
    arithmetic that they have for float32 elements. ``spatial``: how many spatial axes its layers may have.

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
    waits: float = 1.0
    lighter: Callable[[KernelSpec, Any], Any | None] = lambda spec, options: None
    leaner: Callable[[KernelSpec, Any], Any | None] = lambda spec, options: None
    by_name: str = ""
    follows: tuple[str, ...] = ()
    operation: Operation = Operation.FORWARD
    float32: tuple[Numerics, ...] = (Numerics.FLOAT32,)
    spatial: tuple[int, ...] = (2,)

    def __post_init__(self) -> None:
        for name in ("supports", "defaults", "plan", "space", "estimate", "lighter", "leaner"):
            object.__setattr__(self, name, _declining(self.name, name, getattr(self, name)))

    def numerics_for(self, asked: Numerics, dtype: DType, products: int) -> Numerics:
        """The arithmetic of its kernels that answers what is ``asked`` for elements of a type and sums of so many
        ``products``, or one that it refuses."""
        answers = asked.answers(dtype, products)
        return next((numerics for numerics in answers if numerics in self.float32), answers[0])

    def slots(self, plan: KernelPlan, shape: ConvShape) -> float:
        """Modelled issue slots of a layer, for the batch that is assumed (codegen/batch.py)."""
        layer = shape.with_batch(assumed_batch(shape))
        if plan.forward is not None:
            before = len(plan.program.steps) - len(plan.forward.program.steps)
            return TURNED * before + self.slots_of(plan.forward, adjoint.layer_of(layer))
        return self.slots_of(plan, layer)

    def slots_of(self, plan: KernelPlan, layer: ConvShape) -> float:
        """Modelled issue slots of a forward layer, for its own batch."""
        return self.pace * (self.waits if batch_matters(layer) else 1.0) * self.estimate(plan, layer)


# Issue slots of a launch that turns a data gradient's filter, or prepares it then (75 layers, an H200, 2026-11-28)
TURNED = 1.1e6
_DECLINING: weakref.WeakSet[Callable[..., Any]] = weakref.WeakSet()      # what _declining() has made


def _declining(algorithm: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` of an algorithm's row, whose failures are typed and logged."""
    if function in _DECLINING:              # of a row that is made of another by replace()
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

    _DECLINING.add(guarded)
    return guarded
