"""KernelPlan: every number of a kernel, and its Program: the steps that run it.

A plan is made by an algorithm's planner from a KernelSpec and plan values (the algorithm's options). The template
reads ``plan.numbers``; the run time reads ``plan.program`` alone, so a pack needs neither planner nor template.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator
from dataclasses import field, fields
from typing import Any

from .border import Border, argument_bits
from .classes import dataclass
from .descriptors import Descriptor
from .dimension import Dimension
from .fill import Fill
from .hardware import GRID_LIMIT
from .layer import later
from .shape import ConvShape
from .spec import KernelSpec


class Role(enum.Enum):
    """What an argument of a kernel is."""

    INPUT = "input"
    WEIGHT = "weight"
    BIAS = "bias"
    RESIDUAL = "residual"
    OUTPUT = "output"
    GRADIENT = "gradient"       # the output's, beside an input
    WORKSPACE = "workspace"
    SIZE = "size"
    BORDER = "border"           # the value outside of the image, in 32 bits
    INDEX = "index"     # which round of a Repeat
    DESCRIPTOR = "descriptor"   # of an array, by value
    TABLE = "table"     # of the planes of a ragged batch


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One argument: the C parameter, the launch signature and the run-time check all come from here.

    A plan may ask more of it than the spec does: a size to be a multiple of something (so that rows can be loaded as
    vectors), at least, at most or exactly something; a pointer to be a multiple of so many bytes. ``alone``: no other
    argument that is written lies in the same memory, so loads and stores may change places.
    """

    name: str
    role: Role
    c_type: str
    multiple_of: int = 1
    at_least: int = 1
    at_most: int | None = None
    exactly: int | None = None
    alone: bool = True

    @property
    def is_pointer(self) -> bool:
        return self.role not in (Role.SIZE, Role.BORDER, Role.INDEX, Role.DESCRIPTOR)

    @property
    def declaration(self) -> str:
        """The C parameter."""
        if self.role is Role.DESCRIPTOR:
            return f"const __grid_constant__ {self.c_type} {self.name}"
        if not self.is_pointer:
            return f"{self.c_type} {self.name}"
        const = "" if self.role in (Role.OUTPUT, Role.WORKSPACE) else "const "
        restrict = "__restrict__ " if self.alone else ""
        return f"{const}{self.c_type}* {restrict}{self.name}"

    @property
    def demand(self) -> str:
        """What the plan asks of this argument, in words; empty where it asks nothing."""
        if self.exactly is not None:
            return f"{self.name} = {self.exactly}"
        unit = " bytes" if self.is_pointer else ""
        parts = [f"a multiple of {self.multiple_of}{unit}"] if self.multiple_of > 1 else []
        parts += [f"at least {self.at_least}"] if self.at_least > 1 else []
        parts += [f"at most {self.at_most}"] if self.at_most is not None else []
        return f"{self.name} {' and '.join(parts)}" if parts else ""

    def admits(self, value: int) -> bool:
        """Whether a size, or a pointer's address, is what the plan asks for."""
        if self.exactly is not None:
            return value == self.exactly
        small_enough = self.at_most is None or value <= self.at_most
        return value % self.multiple_of == 0 and value >= self.at_least and small_enough


def in_words(arguments: Iterable[Argument]) -> str:
    """What a plan asks of arguments; the distances of an array with gaps, of which it asks the same, together."""
    demands: dict[str, list[str]] = {}
    for argument in arguments:
        together = argument.role is Role.SIZE and "_" in argument.name and argument.multiple_of > 1
        if together:
            demands.setdefault(f"multiples of {argument.multiple_of}", []).append(argument.name)
        elif argument.demand:
            demands[argument.demand] = []
    return "; ".join(f"{', '.join(names)} {demand}" if names else demand for demand, names in demands.items())


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """Blocks along one axis of the grid: min(limit, times * ((each * value of ``of`` + add) // per)), at least 1.

    ``by`` are further sizes that the value of ``of`` is multiplied by (the pixels of a batch: of N, by P and Q), in
    ``pieces`` of so many each (tiles of a plane: of 2 and 4).
    Without ``of`` it is min(limit, times): all that a filter's preparation can ask for, which knows no image.
    """

    of: Dimension | None = None
    by: tuple[Dimension, ...] = ()
    each: int = 1
    add: int = 0
    per: int = 1
    times: int = 1
    limit: int = GRID_LIMIT[0]
    fill: Fill | None = None
    pieces: tuple[int, ...] = later(())

    def __str__(self) -> str:
        if self.of is None:
            return str(self.times)
        along = [size.value if piece == 1 else f"ceil({size.value} / {piece})" for size, piece in self._sizes()]
        units = " * ".join([str(self.each)] * (self.each > 1) + along)
        units = f"({units}{f' + {self.add}' if self.add else ''}) // {self.per}" if self.per > 1 else units
        text = f"{self.times} * {units}" if self.times > 1 else units
        return f"{text}, to whole rounds of {self.fill.blocks} blocks" if self.fill else text

    def _sizes(self) -> Iterator[tuple[Dimension, int]]:
        """Those that are multiplied, each with the length of its pieces."""
        assert self.of is not None
        return zip((self.of, *self.by), (1, *(self.pieces or [1] * len(self.by))))

    def count(self, shape: ConvShape | None, others: int = 1) -> int:
        """Blocks for a layer; ``others`` is the product of the other axes', for a rule that fills the GPU."""
        units = 1
        if self.of is not None:
            assert shape is not None        # only what depends on no size is counted without a layer
            product: int = math.prod([-(-size.of(shape) // piece) for size, piece in self._sizes()])
            units = (self.each * product + self.add) // self.per
            if self.fill is not None:
                units = self.fill.count(self.of.of(shape), units, self.times * others)
        return max(1, min(self.limit, self.times * units))


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Run one entry of the source; ``arguments`` are names of the program's arguments, in the entry's order. ``early``:
    it may begin while the launch before it ends, for whose end its text waits (griddepcontrol)."""

    entry: str
    grid: tuple[Blocks, Blocks, Blocks]
    block: tuple[int, int, int]
    arguments: tuple[str, ...]
    shared_bytes: int = 0
    early: bool = later(False)

    def __str__(self) -> str:
        grid = " x ".join(map(str, self.grid))
        early = ", which may begin while the one before ends" if self.early else ""
        return f"launch {self.entry}({', '.join(self.arguments)}), blocks {grid}, threads {self.block}{early}"

    def grid_of(self, shape: ConvShape | None) -> tuple[int, int, int]:
        x, y, z = (blocks.count(shape) if blocks.fill is None else 1 for blocks in self.grid)
        if self.grid[1].fill is not None:
            y = self.grid[1].count(shape, x * z)
        return x, y, z


@dataclass(frozen=True, kw_only=True)
class LibraryCall:
    """Run a library's routine between launches (a GEMM of cuBLAS, say; NumPy's on the CPU device).

    ``operation`` is a name of the run time's table of library steps; ``operands`` are names of the program's arguments.
    """

    operation: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        return f"library {self.operation}({', '.join(self.operands)})"


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """Run ``steps`` for 0, 1, .. below a size that is known only at the call (each image of a batch, say).

    ``index`` names the argument (Role.INDEX) from which launches and library calls know which round it is.
    """

    of: Dimension
    index: str
    steps: tuple[Launch | LibraryCall, ...]

    def __str__(self) -> str:
        return f"for each {self.index} < {self.of.value}: {'; '.join(map(str, self.steps))}"


Step = Launch | LibraryCall | Repeat


@dataclass(frozen=True, kw_only=True)
class Extent:
    """A size with its surroundings: each * value of ``of`` + add (the padded width of an image, say)."""

    of: Dimension
    each: int = 1
    add: int = 0

    def count(self, shape: ConvShape) -> int:
        return self.each * self.of.of(shape) + self.add


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """Memory that steps ``first_step`` to ``last_step`` share: ``bytes_each`` times the product of ``per``, and no more
    than ``most_bytes``, where the kernels' offsets end.

    Steps are counted as the program lists them: a Repeat is one, and the memory stays through all its rounds.
    """

    name: str
    bytes_each: int
    per: tuple[Extent, ...] = ()
    first_step: int = 0
    last_step: int = 0
    most_bytes: int | None = later(None)

    def bytes_of(self, shape: ConvShape) -> int:
        return self.bytes_each * math.prod(extent.count(shape) for extent in self.per)


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """What happens to a filter once, before the first call.

    ``steps`` turn argument "w" into ``buffer`` (a named workspace that lives as long as the filter and then stands in
    w's place); ``constant`` names a __constant__ array that receives the filter's ``constant_bytes``. ``ordered``: the
    buffer is the filter as (K, R, S, C/groups), with nothing filled up.
    """

    steps: tuple[Step, ...] = ()
    buffer: Workspace | None = None
    constant: str | None = None
    constant_bytes: int = 0
    ordered: bool = later(False)


@dataclass(frozen=True, kw_only=True)
class Program:
    """Everything the run time needs to execute a kernel, besides the compiled code."""

    arguments: tuple[Argument, ...]
    steps: tuple[Step, ...]
    workspaces: tuple[Workspace, ...] = ()
    preparation: Preparation | None = None
    descriptors: tuple[Descriptor, ...] = later(())

    def argument(self, name: str) -> Argument:
        return next(a for a in self.arguments if a.name == name)

    def descriptor(self, name: str) -> Descriptor:
        """That of an argument."""
        return next(d for d in self.descriptors if d.argument == name)

    @property
    def border(self) -> Argument | None:
        """The argument that is the value outside of the image, of a program that takes one."""
        return next((a for a in self.arguments if a.role is Role.BORDER), None)

    def border_bits(self, shape: ConvShape) -> dict[str, int]:
        """That value of a layer as the argument has it, by its name: 32 bits as a signed number."""
        argument = self.border
        if argument is None:
            return {}
        assert shape.padding_mode is Border.CONSTANT, shape
        return {argument.name: argument_bits(argument.c_type, shape.dtype, shape.padding_value)}

    @property
    def demands(self) -> str:
        """What the plan asks of the arguments beyond the spec, in words; empty where nothing."""
        return "; ".join(filter(None, (in_words(self.arguments), *self.size_demands)))

    @property
    def size_demands(self) -> tuple[str, ...]:
        """What descriptors ask of several sizes together, and of one where no argument says so."""
        said = in_words(self.arguments).split("; ")
        return tuple(dict.fromkeys(d.demand for d in self.descriptors if d.demand and d.demand not in said))

    def refusal(self, shape: ConvShape) -> str | None:
        """Why this plan cannot serve the sizes of a layer, or None."""
        for argument in self.arguments:
            if argument.role is Role.SIZE:
                value = Dimension(argument.name).of(shape)
                if not argument.admits(value):
                    return f"this plan needs {argument.demand}, not {value}"
        for workspace in self.workspaces:
            if workspace.most_bytes is not None and workspace.bytes_of(shape) > workspace.most_bytes:
                return (f"{workspace.name} would have {workspace.bytes_of(shape)} bytes, and this plan's offsets reach "
                        f"{workspace.most_bytes}")
        return next((reason for d in self.descriptors if (reason := d.refusal(shape)) is not None), None)

    @property
    def launches(self) -> tuple[Launch, ...]:
        """All launches, those of the preparation first."""
        return tuple(s for s in self._flat() if isinstance(s, Launch))

    @property
    def library_calls(self) -> tuple[LibraryCall, ...]:
        """All steps that a library does."""
        return tuple(s for s in self._flat() if isinstance(s, LibraryCall))

    def _flat(self) -> list[Launch | LibraryCall]:
        steps = (self.preparation.steps if self.preparation else ()) + self.steps
        return [s for step in steps for s in (step.steps if isinstance(step, Repeat) else (step,))]

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the ``extern "C"`` entries, each once."""
        return tuple(dict.fromkeys(launch.entry for launch in self.launches))

    def workspace_bytes(self, shape: ConvShape) -> int:
        """Most bytes of workspace alive at one time; what a filter's preparation makes lives with the filter, and is
        not counted."""
        return max((sum(w.bytes_of(shape) for w in self.workspaces if w.first_step <= i <= w.last_step)
                    for i in range(len(self.steps))), default=0)

    def over_limit(self, shape: ConvShape, limit: int | None) -> str | None:
        """Why the workspace is too large for a layer, with both numbers; None where it is not, or ``limit`` is None."""
        needed = self.workspace_bytes(shape) if self.workspaces and limit is not None else 0
        return None if needed <= (limit or 0) else f"its workspace of {needed} bytes is over the limit of {limit} bytes"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What the plan says a unit of work costs, per warp; inspect shows it beside the measured counts."""

    unit: str
    warp_loads: int
    shuffles: int
    fma: int
    registers: int
    direct_loads: int
    no_spills: bool = True

    def __str__(self) -> str:
        return (f"{self.unit}: {self.warp_loads} warp loads, {self.shuffles} shuffles, {self.fma} FMA a lane, about "
                f"{self.registers} registers (direct: {self.direct_loads} loads)")


@dataclass(frozen=True, kw_only=True)
class KernelPlan:
    """All that the template writes and the run time launches, as plan_layer() and plan() make it.

    Attributes
    ----------
    spec : KernelSpec
        The kernel's class of layers, its algorithm and its architecture.
    options : the algorithm's options
        The plan values; ``settings()`` has them as plain data.
    numbers : the algorithm's numbers
        What its planner made of spec and options: what the template reads.
    templates : tuple of str
        The files that the text is made of.
    program : Program
        Arguments, steps and workspaces: what the run time needs, besides the compiled code.
    cost : Cost
        What a unit of work costs a warp, in instructions.
    phrase : str
        The plan in words.
    notes : tuple of str
        Why the planner decided as it did.
    forward : KernelPlan, optional
        Of a data gradient that kernels of a forward layer make (adjoint.py): the plan of that layer.
    product : KernelSpec, optional
        The layer as the templates write it where that is another: of single pixels, where a step before makes windows
        of them (parts/window_rows.py).
    """

    spec: KernelSpec
    options: Any
    numbers: Any
    templates: tuple[str, ...]
    program: Program
    cost: Cost
    phrase: str
    notes: tuple[str, ...] = field(default=())
    forward: KernelPlan | None = None
    product: KernelSpec | None = None

    def settings(self) -> dict[str, Any]:
        """The plan values as plain data: name -> number, bool or enum value."""
        return {f.name: getattr(v := getattr(self.options, f.name), "value", v) for f in fields(self.options)}

    def __str__(self) -> str:
        lines = [f"kernel {self.spec.algorithm} for {self.spec.arch}",
                 f"layer  {self.spec.layer}", f"plan   {self.phrase}",
                 "values " + ", ".join(f"{name}={value}" for name, value in self.settings().items()),
                 f"cost   {self.cost}", *(f"step   {step}" for step in self.program.steps),
                 *(f"map    {descriptor}" for descriptor in self.program.descriptors)]
        return "\n".join(lines + [f"note   {note}" for note in self.notes])
