"""Which kernel of a pack serves a layer on a device: the rules of what runs where, and of what is preferred.

A cubin runs on the major architecture it was built for, from its own minor on; one for sm_90a on exactly that chip, one
for sm_100f on its family. PTX runs on any architecture from its own on, if the driver knows its ISA version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from warpconv.codegen.adjoint import products_of
from warpconv.codegen.errors import DeviceError
from warpconv.codegen.hardware import DEFAULT_ARCH, Arch
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, KernelSpec, Numerics, Operation, index_bits

from .format import Record

# The PTX ISA of each CUDA release; 13.x has 9.x (13.5 emits 9.5).
_ISA_OF_CUDA = {(12, 6): (8, 5), (12, 7): (8, 6), (12, 8): (8, 7), (12, 9): (8, 8),
                **{(11, minor): (7, minor) for minor in range(9)}, **{(12, minor): (8, minor) for minor in range(6)}}


class PtxTooNew(DeviceError):
    """A pack has a kernel as PTX only, and the driver is older than the PTX."""


def serves(spec: KernelSpec, shape: ConvShape, epilogue: Sequence[Epilogue],
           numerics: Numerics = Numerics.FLOAT32, operation: Operation = Operation.FORWARD) -> bool:
    """Whether a kernel computes this layer: all that is baked into it is the same, with arithmetic that answers what is
    asked, and its indices are wide enough."""
    answers = numerics.answers(shape.dtype, products_of(shape, operation))
    wanted = (KernelSpec.of(shape, algorithm=spec.algorithm, arch=spec.arch, epilogue=epilogue, numerics=answer,
                            operation=operation) for answer in answers)
    same = {"index_bits": spec.index_bits}
    if spec.takes_border(shape.padding_value):      # a value of the kernel's kind, or that in an older one's text
        same |= {"border_value": spec.border_value, "padding_value": spec.padding_value}
    return any(replace(w, **same) == spec for w in wanted) and spec.index_bits >= index_bits(shape)


def near_misses(records: Iterable[Record], shape: ConvShape, epilogue: Sequence[Epilogue]) -> list[str]:
    """The kernels for the same layer that were not asked for, in words: with other steps after it, for other sizes, by
    another algorithm or for another architecture."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        spec, program = record.kernel.spec, record.kernel.program
        if not serves(spec, shape, spec.epilogue, spec.numerics):
            continue
        steps = ", ".join(step.value for step in spec.epilogue)
        words = f"with epilogue {steps}" if steps else "without an epilogue"
        if tuple(spec.epilogue) == tuple(epilogue):
            words = program.refusal(shape) or "as asked for"
        found.setdefault(words, {})[f"{spec.algorithm} for {spec.arch}"] = None
    return [f"{words} ({', '.join(kernels)})" for words, kernels in found.items()]


def cubin_runs(built: Arch, device: Arch) -> bool:
    """Whether a cubin for ``built`` loads on ``device``."""
    if built.feature == "a":
        return (built.major, built.minor) == (device.major, device.minor)
    return built.major == device.major and built.minor <= device.minor


def ptx_runs(built: Arch, device: Arch) -> bool:
    """Whether PTX for ``built`` can be compiled for ``device``, by a driver that reads it."""
    if built.feature:
        return cubin_runs(built, device)
    return (built.major, built.minor) <= (device.major, device.minor)


def ranked(records: Iterable[Record], shape: ConvShape, device: Arch | None) -> list[tuple[Record, bool]]:
    """The records that run on ``device`` (None: the CPU device), best first, each with whether by its PTX.

    Cubins come before PTX, nearer architectures before farther ones; then kernels built for this very layer, then the
    lowest estimate per multiply-add, then the order of the manifest.
    """
    found = []
    for order, record in enumerate(records):
        built = record.kernel.spec.arch
        if device is None:
            found.append((_key(record, shape, False, DEFAULT_ARCH) + (order,), record, False))
        elif cubin_runs(built, device):
            found.append((_key(record, shape, False, device) + (order,), record, False))
        elif record.has_ptx and ptx_runs(built, device):
            found.append((_key(record, shape, True, device) + (order,), record, True))
    return [(record, by_ptx) for _, record, by_ptx in sorted(found, key=lambda item: item[0])]


def newest_isa(cuda: tuple[int, int]) -> tuple[int, int] | None:
    """The newest PTX ISA that a driver for this CUDA version reads, None where that is not known."""
    return (9, cuda[1]) if cuda[0] == 13 else _ISA_OF_CUDA.get(cuda)


def check_ptx(record: Record, cuda: tuple[int, int] | None, command: str) -> None:
    """Raise PtxTooNew where the record's PTX is known to be newer than the driver."""
    isa = record.kernel.compiled.ptx_isa
    newest = newest_isa(cuda) if cuda else None
    if isa is None or newest is None or not re.fullmatch(r"\d+\.\d+", isa):
        return
    if tuple(map(int, isa.split("."))) > newest:
        raise ptx_too_new(record, cuda, command)


def ptx_too_new(record: Record, cuda: tuple[int, int] | None, command: str) -> PtxTooNew:
    """What to raise where the driver cannot read a pack's PTX."""
    driver = "this driver" if cuda is None else f"this driver, which is made for CUDA {cuda[0]}.{cuda[1]},"
    newest = newest_isa(cuda) if cuda else None
    reads = f" reads up to {newest[0]}.{newest[1]}" if newest else " is older"
    isa = record.kernel.compiled.ptx_isa
    return PtxTooNew(f"the pack has this kernel only as PTX of ISA {isa}, and {driver}{reads}", argument="kernel",
                     value=record.id, hint=f"install a newer driver, or add a cubin: {command}")


def _key(record: Record, shape: ConvShape, by_ptx: bool, near: Arch) -> tuple:
    built = record.kernel.spec.arch
    distance = (abs(near.major - built.major), abs(near.minor - built.minor), built.feature == "")
    same = [layer for layer in record.layers if layer.shape.with_batch(1) == shape.with_batch(1)]
    estimates = [layer.estimate / layer.shape.macs for layer in same or record.layers]
    return by_ptx, distance, not same, min(estimates, default=float("inf"))
