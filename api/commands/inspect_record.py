"""What ``inspect`` and ``demo`` show of a plan, gathered: nothing is printed here."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from warpconv.codegen.errors import CompileError, KernelNotBuilt, ToolNotFound

from .wording import worded

if TYPE_CHECKING:
    from warpconv.codegen.plan import KernelPlan
    from warpconv.codegen.shape import ConvShape
    from warpconv.records.layers import InspectRecord, MeasuredRecord
    from warpconv.runtime.build.pipeline import BuiltKernel, Text

    from .layer import LayerRequest


def inspect_record(request: LayerRequest, plan: KernelPlan, *, source: bool = True, measure: bool = True,
                   ptx: bool = False, sass: bool = False, edited: str | None = None) -> InspectRecord:
    """Everything about a plan, and of ``edited``, a text in place of that which it gives. Raises CompileError only
    where ``ptx`` or ``sass`` is asked for, or where the CPU device cannot take an edited text; KernelFault for one that
    breaks a rule of the machine."""
    from warpconv.codegen.options import choices
    from warpconv.records.layers import InspectRecord, LaunchRow, PlanValue
    from warpconv.runtime.build.pipeline import Text
    from warpconv.runtime.build.templates import laid_over, source_of

    from .edited import changed_lines
    built, compiled_reason = _built(plan if edited is None else Text.given(plan.spec, plan.program, edited), ptx,
                                    needed=ptx or sass)
    plan = _as_built(plan, built)
    offered = choices(plan.options)
    measured, reason = (measured_record(plan, request.shape, source=edited) if measure else (None, "switched off"))
    instructions, sass_reason = _sass(built) if sass and built else (None, compiled_reason if sass else None)
    return InspectRecord(
        layer=str(request.shape), assumed=request.assumed, algorithm=plan.spec.algorithm, arch=str(plan.spec.arch),
        plan=plan.phrase, demands=plan.program.demands, notes=plan.notes, cost=asdict(plan.cost), measured=measured,
        measured_reason=reason,
        values=tuple(PlanValue(name=name, value=value, choices=offered[name])
                     for name, value in plan.settings().items()),
        launches=tuple(LaunchRow(entry=launch.entry, grid=launch.grid_of(request.shape), block=launch.block,
                                 shared_bytes=launch.shared_bytes) for launch in plan.program.launches),
        library=tuple(str(call) for call in plan.program.library_calls),
        workspace_bytes=plan.program.workspace_bytes(request.shape),
        source=(source_of(plan, laid_over()).text if edited is None else edited) if source else None,
        changed_lines=None if edited is None else changed_lines(plan, edited),
        compiler=f"{built.compiled.compiler.value} {built.compiled.version}" if built else None,
        compiled=_compiled_rows(built), compiled_reason=compiled_reason,
        ptx=built.compiled.ptx if ptx and built else None, sass=instructions,
        ptx_reason=compiled_reason if ptx else None, sass_reason=sass_reason)


def measured_record(plan: KernelPlan, shape: ConvShape, *, units: bool = True,
                    source: str | None = None) -> tuple[MeasuredRecord | None, str | None]:
    """Counts on ``shape``, or on a smaller layer where that would take long; else None and why there are none.
    ``source``: a text in place of the plan's."""
    from warpconv.records.layers import MeasuredRecord
    from warpconv.runtime.accuracy.measure import measurable, measure, measure_unit
    pair = measurable(plan, shape, as_it_is=source is not None)
    if pair is None:
        return None, "the layer would take long, and its plan takes no smaller one"
    executed, chosen = pair
    try:
        found = measure(executed, chosen, source=source)
        unit = measure_unit(plan, source=source) if units else None
    except ToolNotFound as error:
        return None, str(worded(error))
    return MeasuredRecord(
        layer=str(chosen), reduced=_reduction(plan, executed, shape, chosen), buffers=buffer_rows(found.buffers),
        shuffles=found.shuffles,
        shared_requests=found.shared_requests, shared_wavefronts=found.shared_wavefronts,
        constant_requests=found.constant_requests, max_error=found.accuracy.max_error,
        worst_ratio=found.accuracy.worst_ratio, unit=unit.plan.cost.unit if unit else None,
        units=unit_rows(unit) if unit else ()), None


def buffer_rows(buffers: Any) -> tuple[Any, ...]:
    """The counts of each buffer."""
    from warpconv.records.layers import BufferRow
    return tuple(BufferRow(buffer=name, load_requests=c.load_requests, load_sectors=c.load_sectors,
                           store_requests=c.store_requests, store_sectors=c.store_sectors)
                 for name, c in buffers.items())


def unit_rows(unit: Any) -> tuple[Any, ...]:
    """Planned beside counted."""
    from warpconv.records.layers import UnitRow
    cost = unit.plan.cost
    return (UnitRow(figure="warp loads of the input", planned=cost.warp_loads, measured=unit.warp_loads),
            UnitRow(figure="shuffles", planned=cost.shuffles, measured=unit.shuffles))


def _reduction(plan: KernelPlan, executed: KernelPlan, shape: ConvShape, chosen: ConvShape) -> str | None:
    if executed is plan and chosen == shape:
        return None
    image = "one image" if chosen.image == shape.image else "an image of a few blocks"
    if executed is not plan:
        return (f"reduced: the same plan values with C = {executed.spec.c} and K = {executed.spec.k}, and {image}; "
                "the whole layer would take long")
    return f"reduced to {image}; the whole layer would take long"


def _built(plan: KernelPlan | Text, ptx: bool, *, needed: bool) -> tuple[BuiltKernel | None, str | None]:
    from warpconv.runtime.build.pipeline import build
    try:
        return build(plan, ptx=ptx), None
    except (ToolNotFound, KernelNotBuilt, CompileError) as error:
        if needed and isinstance(error, CompileError):
            raise
        return None, str(worded(error))


def _as_built(plan: KernelPlan, built: BuiltKernel | None) -> KernelPlan:
    """The plan, or that with fewer blocks beside each other that was built in its place, and says so."""
    from warpconv.codegen.classes import replace
    if built is None or not callable(built.plan):
        return plan
    made = built.plan()
    fewer = f"min_blocks = {made.options.min_blocks}, since compilers spill registers with {plan.options.min_blocks}"
    return replace(made, notes=(*made.notes, fewer))


def _compiled_rows(built: BuiltKernel | None) -> tuple[Any, ...]:
    from warpconv.records.layers import CompiledRow
    return tuple(CompiledRow(entry=e.name, registers=e.registers, stack_bytes=e.stack_bytes,
                             spill_stores=e.spill_stores, spill_loads=e.spill_loads, shared_bytes=e.shared_bytes)
                 for e in (built.compiled.entries if built else ()))


def _sass(built: BuiltKernel) -> tuple[str | None, str | None]:
    from warpconv.runtime.build.disassembly import disassemble
    try:
        return disassemble(built.compiled.cubin), None
    except ToolNotFound as error:
        return None, str(worded(error))
