"""Running a program's steps in order, with its workspaces taken and given back around them; the same on every
device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from warpconv.codegen.errors import DeviceError
from warpconv.codegen.plan import Launch, LibraryCall, Program, Repeat, Step, Workspace
from warpconv.codegen.shape import ConvShape

from .library import cublas, numpy_gemm

LibraryStep = Callable[["Executor", ConvShape, Sequence[Any]], None]

# Library steps by (operation, device kind); an algorithm that needs one adds it here: (executor, shape, operands).
LIBRARY: dict[tuple[str, str], LibraryStep] = {
    ("gemm_batch", "cpu"): numpy_gemm.gemm_batch, ("gemm_image", "cpu"): numpy_gemm.gemm_image,
    ("gemm_batch", "cuda"): cublas.gemm_batch, ("gemm_image", "cuda"): cublas.gemm_image}

# What raises a DeviceError where a step's library is not installed, by the same.
NEEDS: dict[tuple[str, str], Callable[[], None]] = {
    ("gemm_batch", "cuda"): cublas.require, ("gemm_image", "cuda"): cublas.require}


class Executor(Protocol):
    """One device's way to do a step; operands are that device's memory handles."""

    kind: str    # "cpu" or "cuda"

    def launch(self, step: Launch, shape: ConvShape, operands: Mapping[str, Any]) -> None: ...

    def allocate(self, workspace: Workspace, nbytes: int) -> Any: ...

    def release(self, workspace: Workspace, memory: Any) -> None: ...


def require(program: Program, kind: str) -> None:
    """DeviceError where a library that the program's steps need is not there; asked before anything is launched."""
    for call in program.library_calls:
        NEEDS.get((call.operation, kind), lambda: None)()


def execute(executor: Executor, steps: Sequence[Step], workspaces: Sequence[Workspace], shape: ConvShape,
            operands: Mapping[str, Any]) -> None:
    """Run the steps; a workspace lives from its first step to its last, and is given back also after an error."""
    memory = dict(operands)
    alive: dict[str, Workspace] = {}
    try:
        for number, step in enumerate(steps):
            for workspace in workspaces:
                if workspace.first_step == number:
                    memory[workspace.name] = executor.allocate(workspace, workspace.bytes_of(shape))
                    alive[workspace.name] = workspace
            _run_step(executor, step, shape, memory)
            for name in [name for name, workspace in alive.items() if workspace.last_step == number]:
                executor.release(alive.pop(name), memory.pop(name))
    finally:
        for name, workspace in alive.items():
            executor.release(workspace, memory.pop(name))


def _run_step(executor: Executor, step: Step, shape: ConvShape, memory: Mapping[str, Any]) -> None:
    if isinstance(step, Launch):
        executor.launch(step, shape, memory)
        return
    if isinstance(step, Repeat):
        for number in range(step.of.of(shape)):
            for inner in step.steps:
                _run_step(executor, inner, shape, {**memory, step.index: number})
        return
    assert isinstance(step, LibraryCall)
    routine = LIBRARY.get((step.operation, executor.kind))
    if routine is None:
        known = ", ".join(operation for operation, kind in LIBRARY if kind == executor.kind)
        raise DeviceError("this device has no such library step", argument="operation", value=step.operation,
                          hint=f"on {executor.kind} there are: {known}")
    routine(executor, shape, [memory[name] for name in step.operands])
