"""A program and a report out of a manifest, checked whole before anything of them is used.

serialise.decode() has seen to types; here is what they mean: every name leads somewhere, every number is one that a
planner could have written. So what runs a program need not ask again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from warpconv.codegen.border import Border
from warpconv.codegen.descriptors import SWIZZLES, Walk
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.plan import (GRID_LIMIT, Argument, Blocks, Extent, Launch, LibraryCall, Program, Repeat, Role,
                                   Step, Workspace)
from warpconv.codegen.spec import Epilogue, KernelSpec, Operation

LARGEST = 2**62             # of any number: sums and products of a few stay numbers that a GPU's driver takes
MOST = 256                  # arguments, steps, workspaces
MOST_THREADS = 1024
MOST_SHARED = 1 << 20       # bytes of a block
MOST_CONSTANT = 1 << 16     # bytes of constant memory

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_C_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_ ]{0,63}")
_ONCE = {Operation.FORWARD: (Role.INPUT, Role.WEIGHT, Role.OUTPUT),
         Operation.DATA_GRADIENT: (Role.INPUT, Role.WEIGHT, Role.OUTPUT),
         Operation.FILTER_GRADIENT: (Role.INPUT, Role.GRADIENT, Role.OUTPUT),
         Operation.BIAS_GRADIENT: (Role.INPUT, Role.OUTPUT),
         Operation.RAGGED: (Role.INPUT, Role.WEIGHT, Role.TABLE, Role.OUTPUT)}
_READ_BORDERS = (Operation.FORWARD, Operation.FILTER_GRADIENT, Operation.RAGGED)
_NO_ARRAYS = (Role.WORKSPACE, Role.SIZE, Role.BORDER, Role.INDEX, Role.DESCRIPTOR)


def check_kernel(kernel: Any) -> None:
    """A BuiltKernel without its files. Raises ValueError that says what cannot be."""
    _require(isinstance(kernel.settings, Mapping), "its settings are no object")
    compiled = kernel.compiled
    texts = {"log": compiled.log, "version": compiled.version, "arch": compiled.arch,
             "ptx_isa": compiled.ptx_isa or ""}
    for name, value in texts.items():
        _require(isinstance(value, str), f"{name} of its report is no text")
    _require(all(isinstance(option, str) for option in compiled.options), "an option of its report is no text")
    for entry in compiled.entries:
        _require(isinstance(entry.name, str), "an entry of its report has no name")
        for value in list(vars(entry).values())[1:]:
            _number(value, "a figure of its report", 0, 2**40)
    check_program(kernel.program, kernel.spec)


def check_program(program: Program, spec: KernelSpec) -> None:
    """Raises ValueError that says what cannot be."""
    known = _arguments(program.arguments, spec)
    preparation = program.preparation
    prepared = preparation.steps if preparation is not None else ()
    for steps in (program.steps, prepared):
        _require(len(steps) <= MOST, f"it has {len(steps)} steps")
        for step in steps:
            _step(step, known)
        for before, step in zip((None, *steps), steps):
            early = isinstance(step, Launch) and step.early
            _require(not early or isinstance(before, Launch), "a launch is early behind none of its program")
    _require(program.steps, "it has no steps")
    _descriptors(program, known)
    _require(len(program.workspaces) <= MOST, f"it has {len(program.workspaces)} workspaces")
    _unique((w.name for w in program.workspaces), "workspaces")
    for workspace in program.workspaces:
        _workspace(workspace, known, len(program.steps))
    if preparation is not None:
        _require(preparation.constant is None or _NAME.fullmatch(preparation.constant), "a constant has no name")
        _number(preparation.constant_bytes, "bytes of constants", 0, MOST_CONSTANT)
        _require(not prepared or preparation.buffer is not None, "its preparation has steps and no buffer")
        if preparation.buffer is not None:
            _workspace(preparation.buffer, known, 1)


def _arguments(arguments: Sequence[Argument], spec: KernelSpec) -> dict[str, Argument]:
    _require(len(arguments) <= MOST, f"it has {len(arguments)} arguments")
    _unique((argument.name for argument in arguments), "arguments")
    for argument in arguments:
        name = argument.name
        _require(_NAME.fullmatch(name), f"{name!r} is no name of an argument")
        _require(_C_TYPE.fullmatch(argument.c_type), f"{name} has no C type")
        _require(argument.role is not Role.SIZE or name in {size.value for size in Dimension}, f"{name} is no size")
        _number(argument.multiple_of, f"multiple_of of {name}", 1)
        _number(argument.at_least, f"at_least of {name}", -LARGEST)
        for value in (argument.at_most, argument.exactly):
            _number(0 if value is None else value, f"a bound of {name}", -LARGEST)
    borders = [argument.c_type for argument in arguments if argument.role is Role.BORDER]
    taken = spec.padding_mode is Border.CONSTANT and not spec.padding_value and spec.operation in _READ_BORDERS
    _require(len(borders) == taken and all(c_type in ("float", "int", "unsigned") for c_type in borders),
             "its border's value is no such argument")
    wanted = [*_ONCE[spec.operation], *([Role.BIAS] if Epilogue.BIAS in spec.epilogue else []),
              *([Role.RESIDUAL] if Epilogue.RESIDUAL in spec.epilogue else [])]
    found = [a.role for a in arguments if a.role not in _NO_ARRAYS]
    _require(sorted(r.value for r in found) == sorted(r.value for r in wanted),
             f"its arrays are {', '.join(r.value for r in found)}, not {', '.join(r.value for r in wanted)}")
    return {argument.name: argument for argument in arguments}


def _descriptors(program: Program, known: Mapping[str, Argument]) -> None:
    """Every argument of that role has one, of an array, within the hardware's limits as far as no size decides."""
    wanted = sorted(name for name, argument in known.items() if argument.role is Role.DESCRIPTOR)
    _require(sorted(descriptor.argument for descriptor in program.descriptors) == wanted,
             "its descriptors are not those of its arguments")
    for descriptor in program.descriptors:
        name = descriptor.argument
        _require(descriptor.of in known and known[descriptor.of].is_pointer, f"{name} describes no array")
        most = 5 if descriptor.walk is Walk.IM2COL else 4
        _require(2 <= len(descriptor.sizes) <= most, f"{name} has {len(descriptor.sizes)} dimensions")
        if descriptor.walk is Walk.IM2COL:
            numbers = descriptor.lower, descriptor.upper, descriptor.strides, descriptor.reach
            _require({len(found) for found in numbers} == {len(descriptor.sizes) - 2} <= {2, 3},
                     f"{name} walks over other axes than it has")
        else:
            axes = len(descriptor.sizes) - 2 if max(descriptor.strides, default=0) > 1 else len(descriptor.strides)
            _require(len(descriptor.strides) == axes > 0, f"{name} steps along other axes than it has")
        boxed = 2 if descriptor.walk is Walk.IM2COL else len(descriptor.sizes)
        _require(len(descriptor.box) == boxed, f"{name} copies boxes of {len(descriptor.box)} dimensions")
        _require(descriptor.swizzle in SWIZZLES, f"{name} has no such swizzle")
        for length in descriptor.sizes:
            _number(length.each, f"a size of {name}", 1, 2**32)
            _require(len(length.by) <= len(Dimension), f"{name} multiplies too many sizes")
        for value in (*descriptor.box, *descriptor.lower, *descriptor.upper, *descriptor.strides):
            _number(value, f"a number of {name}", -2**31, 2**31)
        reason = descriptor.refusal()
        _require(reason is None, str(reason))


def _step(step: Step, known: Mapping[str, Argument], inside: bool = False) -> None:
    if isinstance(step, Repeat):
        _require(not inside, "a repeat is in a repeat")
        _require(step.index in known and known[step.index].role is Role.INDEX, f"{step.index!r} is no index")
        _require(len(step.steps) <= MOST, f"it has {len(step.steps)} repeated steps")
        for inner in step.steps:
            _step(inner, known, inside=True)
    elif isinstance(step, LibraryCall):
        from warpconv.runtime.devices.steps import LIBRARY
        operations = {operation for operation, _ in LIBRARY}
        _require(step.operation in operations, f"{step.operation!r} is no library step")
        _names(step.operands, known)
    else:
        _launch(step, known)


def _launch(launch: Launch, known: Mapping[str, Argument]) -> None:
    _require(_NAME.fullmatch(launch.entry), f"{launch.entry!r} is no name of an entry")
    _names(launch.arguments, known)
    threads = 1
    for extent in launch.block:
        _number(extent, "threads of a block", 1, MOST_THREADS)
        threads *= extent
    _number(threads, "threads of a block", 1, MOST_THREADS)
    _number(launch.shared_bytes, "shared memory of a block", 0, MOST_SHARED)
    for blocks in launch.grid:
        _blocks(blocks)


def _blocks(blocks: Blocks) -> None:
    for name, least in (("each", 0), ("add", -LARGEST), ("per", 1), ("times", 1)):
        _number(getattr(blocks, name), f"{name} of a grid", least)
    _number(blocks.limit, "the limit of a grid", 1, GRID_LIMIT[0])
    _require(len(blocks.by) < len(Dimension), "a grid multiplies too many sizes")
    _require(len(blocks.pieces) in (0, len(blocks.by)), "a grid has pieces of other sizes than it multiplies")
    for piece in blocks.pieces:
        _number(piece, "a piece of a grid", 1)
    _require(blocks.of is not None or not (blocks.by or blocks.fill), "a grid multiplies or fills no size")
    if blocks.fill is not None:
        for name, least in (("blocks", 1), ("least", 1), ("rounds", 0)):
            _number(getattr(blocks.fill, name), f"{name} of a grid that fills", least, 2**31)


def _workspace(workspace: Workspace, known: Mapping[str, Argument], steps: int) -> None:
    _require(workspace.name in known and known[workspace.name].role is Role.WORKSPACE,
             f"{workspace.name!r} is no workspace among its arguments")
    _number(workspace.bytes_each, f"bytes of {workspace.name}", 1, 2**48)
    _number(workspace.first_step, f"the first step of {workspace.name}", 0, steps - 1)
    _number(workspace.last_step, f"the last step of {workspace.name}", workspace.first_step, steps - 1)
    _require(len(workspace.per) <= len(Dimension), f"{workspace.name} multiplies too many sizes")
    for extent in workspace.per:
        _extent(extent, workspace.name)


def _extent(extent: Extent, name: str) -> None:
    _number(extent.each, f"a size of {name}", 1, 2**31)
    _number(extent.add, f"a size of {name}", -2**31, 2**31)


def _names(names: Sequence[str], known: Mapping[str, Argument]) -> None:
    unknown = [name for name in names if name not in known]
    _require(not unknown, f"a step takes {unknown[:3]}, which are no arguments")
    _require(len(names) <= MOST, f"a step takes {len(names)} arguments")


def _number(value: Any, what: str, least: int, most: int = LARGEST) -> None:
    _require(isinstance(value, int) and not isinstance(value, bool) and least <= value <= most,
             f"{what} cannot be {str(value)[:40] if not isinstance(value, int) or abs(value) < 10**30 else 'so large'}")


def _unique(names: Iterable[str], what: str) -> None:
    names = list(names)
    _require(len(set(names)) == len(names), f"two of its {what} have one name")


def _require(holds: Any, words: str) -> None:
    if not holds:
        raise ValueError(words)
