"""Request: all that is asked of a kernel, as one value; equal requests have equal plans."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from .batch import shared_batch
from .border import Border, BorderValue
from .classes import dataclass, replace
from .dtypes import Layout
from .epilogue import Epilogue, parse_epilogue
from .errors import ArgumentError, ArgumentTypeError
from .hardware import DEFAULT_ARCH, Arch, Hardware
from .numerics import Numerics, Precision
from .shape import ConvShape
from .spec import KernelSpec, Operation

Settings = tuple[tuple[str, Any], ...]      # plan values by name: numbers and names, sorted


@dataclass(frozen=True, kw_only=True)
class Request:
    """A layer and how its kernel is wanted.

    ``operation`` of the layer with ``epilogue`` on each output, in ``numerics``; ``workspace_limit``: bytes of
    workspace that a call of this layer may take at most, None for any number; ``hardware``: the GPU, an
    architecture's or the one at hand.
    ``algorithm`` "auto" leaves the choice to the rule; ``settings`` are plan values over those that the rule takes.
    ``Request.of`` makes one of what people write.
    """

    layer: ConvShape
    operation: Operation = Operation.FORWARD
    epilogue: tuple[Epilogue, ...] = ()
    numerics: Numerics = Numerics.FLOAT32
    workspace_limit: int | None = None
    hardware: Hardware = field(default_factory=lambda: Hardware.of(DEFAULT_ARCH))
    algorithm: str = "auto"
    settings: Settings = ()

    @classmethod
    def of(cls, layer: ConvShape, *, algorithm: str = "auto", arch: Arch | Hardware | str = DEFAULT_ARCH,
           epilogue: Iterable[Epilogue] = (), settings: Mapping[str, Any] | None = None,
           numerics: Numerics | str = Numerics.FLOAT32, workspace_limit: int | None = None,
           operation: Operation | str = Operation.FORWARD,
           precision: Precision | str = Precision.FLOAT32) -> Request:
        """Raises ArgumentError for unknown names and values, ArgumentTypeError for what can be none."""
        if not isinstance(layer, ConvShape):
            raise ArgumentTypeError("a layer is a ConvShape", argument="shape", value=type(layer).__name__,
                                    hint="warpconv.ConvShape(c=..., h=..., w=..., k=..., r=..., s=...)")
        if not isinstance(algorithm, str):
            raise ArgumentTypeError("algorithm must be a name", argument="algorithm", value=algorithm,
                                    hint="'auto', 'reuse', ...")
        if algorithm == "auto" and not settings and Operation.parse(operation) is not Operation.BIAS_GRADIENT:
            layer = of_pixels(layer)
        return cls(layer=layer, algorithm=algorithm, hardware=Hardware.parse(arch),
                   epilogue=parse_epilogue(epilogue, takes_bias=True), settings=settings_of(settings),
                   numerics=Numerics.parse(numerics).with_precision(precision),
                   workspace_limit=check_limit(workspace_limit), operation=Operation.parse(operation))

    @property
    def target(self) -> Arch:
        """The architecture that the kernel is compiled for."""
        return self.hardware.arch

    @property
    def for_any_batch(self) -> Request:
        """The same for the batch that stands for all that share this one's kernel."""
        batch = shared_batch(self.layer)
        return self if self.layer.n == batch else replace(self, layer=self.layer.with_batch(batch))

    @property
    def for_any_border(self) -> Request:
        """The same for the value that stands for all of its kind, where the border is one value."""
        if self.layer.padding_mode is not Border.CONSTANT:
            return self
        value = BorderValue.of(self.layer.padding_value, self.layer.dtype).example
        return replace(self, layer=replace(self.layer, padding_value=value))

    @property
    def by_rule(self) -> bool:
        """Whether neither algorithm nor plan values are named."""
        return self.algorithm == "auto" and not self.settings

    def spec(self, algorithm: str, numerics: Numerics | None = None) -> KernelSpec:
        """What an algorithm's kernel for it is, with the arithmetic that it answers with."""
        return KernelSpec.of(self.layer, algorithm=algorithm, arch=self.target, epilogue=self.epilogue,
                             numerics=numerics or self.numerics, operation=self.operation,
                             at_hand=self.hardware.at_hand)


def of_pixels(layer: ConvShape) -> ConvShape:
    """The layer, as one in NHWC where its images and outputs are single pixels: their memory is the same in both
    orders, and dense layers read the channels of a pixel as they lie in that one."""
    single = layer.h == layer.w == layer.p == layer.q == 1 and layer.d is None
    dense = layer.dtype.is_float and layer.groups == 1
    if not (single and dense) or layer.layout is Layout.NHWC or layer.x_pitch is not None or layer.y_pitch is not None:
        return layer
    return replace(layer, layout=Layout.NHWC)


def settings_of(given: Mapping[str, Any] | None) -> Settings:
    """Plan values as people write them, in one form. Raises ArgumentTypeError, ArgumentError for what is no plan
    value of any algorithm."""
    if given is not None and not (isinstance(given, Mapping) and all(isinstance(name, str) for name in given)):
        raise ArgumentTypeError("settings must be a mapping of names to values", argument="settings",
                                value=given if isinstance(given, Mapping) else type(given).__name__,
                                hint="{'exchange': 'packed'}")
    return tuple(sorted((name, _plain(name, value)) for name, value in (given or {}).items()))


def _plain(name: str, value: Any) -> int | str | None:
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, str):
        return value            # of None the planner says what it offers
    try:
        if isinstance(value, bool):
            raise TypeError
        return int(value.__index__())       # NumPy's whole numbers too; no floating-point number
    except (AttributeError, TypeError):
        raise ArgumentError("plan value not offered", argument=f"set {name}", value=value,
                            hint="a whole number >= 1, or a choice by its name") from None


def check_limit(limit: Any, argument: str = "workspace_limit") -> int | None:
    """A limit on workspace as given. Raises ArgumentError, ArgumentTypeError."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise ArgumentTypeError("a limit is a whole number of bytes", argument=argument, value=limit, hint="or None")
    if limit < 0:
        raise ArgumentError("a limit is no less than 0 bytes", argument=argument, value=limit, hint="or None")
    return limit
