"""``warpconv explain MODEL``: what each layer of a model is expected to take, its floor, and where the time goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from warpconv.codegen.errors import ArgumentError, UnsupportedSpec

from .explain import tuning_of
from .left_out import left_out_rows, show_left_out
from .output import add_row, console, echo_record, heading, seconds_text, size_text, table
from .requests import Asked
from .several import DECLINED
from .wording import worded

if TYPE_CHECKING:
    from warpconv.records.models import ModelKindRow, ModelRecord, ModelRow

    from .layer import LayerRequest


def explain_model(ctx: click.Context, asked: Asked, as_json: bool) -> None:
    """Print a table for each architecture. Exit code 1 where a convolution is left out or declined.

    Raises ArgumentError for several combinations of plan values.
    """
    from warpconv.records.layers import ManyRecord, ResultRow
    groups: dict[str, list[LayerRequest]] = {}
    for request in asked.singles("explain of a model"):
        groups.setdefault(str(request.arch or ""), []).append(request)
    records = [model_record(asked.model, requests) for requests in groups.values()]
    if as_json:
        echo_record(records[0] if len(records) == 1 else ManyRecord(results=tuple(
            ResultRow(name=record.arch, reason=None, result=record) for record in records)))
    else:
        for record in records:
            _show(record)
    if asked.model.left_out or any(row.reason for record in records for row in record.layers):
        ctx.exit(DECLINED)


def model_record(model: Any, requests: Sequence[LayerRequest]) -> ModelRecord:
    """A model's layers on one architecture; those that are alike are planned once."""
    from warpconv.codegen.hardware import DEFAULT_ARCH
    from warpconv.records.models import ModelRecord
    known: dict[Any, tuple[Any, ...]] = {}
    rows, arch, said = [], DEFAULT_ARCH, []
    for named, request in zip(model, requests):
        arch, table_, why = tuning_of(request)
        said.append("measured choices are followed, where there are any" if table_ is not None else why)
        key = (request.shape, request.epilogue, request.algorithm, tuple(request.settings.items()), request.numerics,
               request.operation, arch)
        if key not in known:
            known[key] = _answered(request, arch, table_)
        rows.append(_row(named, request, *known[key]))
    served = [row for row in rows if row.seconds is not None]
    return ModelRecord(model=model.source, arch=str(arch), layers=tuple(rows), kinds=_kinds(served),
                       seconds=sum(row.seconds for row in served),
                       floor_seconds=sum(row.floor_seconds for row in served),
                       workspace_bytes=max((row.workspace_bytes for row in served), default=0),
                       tuning=max(said, key=said.count, default=""),
                       left_out=left_out_rows(model))


def _answered(request: LayerRequest, arch: Any, tuning: Any) -> tuple[Any, ...]:
    """Algorithm, seconds, whether measured, floor and workspace of a layer; or why there is no kernel."""
    from warpconv.codegen.request import Request
    from warpconv.codegen.resolution import resolve
    from warpconv.runtime.models import expected
    floor = expected.floor(request.shape, request.epilogue)
    try:
        found = resolve(Request.of(request.shape, algorithm=request.algorithm, arch=arch, epilogue=request.epilogue,
                                   settings=request.settings, numerics=request.numerics,
                                   workspace_limit=request.workspace_limit, operation=request.operation), tuning)
    except (UnsupportedSpec, ArgumentError) as error:
        return None, None, False, floor, None, str(worded(error))
    plan = found.plan
    measured = tuning.seconds(request.shape, arch, request.numerics) if found.tuned else None
    return (plan.spec.algorithm, measured or expected.seconds(plan, request.shape), measured is not None, floor,
            plan.program.workspace_bytes(request.shape), None)


def _row(named: Any, request: LayerRequest, algorithm: Any, seconds: Any, measured: bool, floor: float, workspace: Any,
         reason: Any) -> ModelRow:
    from warpconv.records.models import ModelRow
    return ModelRow(node=getattr(named, "node", named.name), name=named.name, op=getattr(named, "op", "Conv"),
                    shape=str(request.shape), epilogue=tuple(step.value for step in request.epilogue),
                    algorithm=algorithm, seconds=seconds, measured=measured, floor_seconds=floor,
                    share_of_floor=None if seconds is None else floor / seconds, workspace_bytes=workspace,
                    reason=reason, kind=_kind(request.shape), sizes=_sizes(request.shape), geometry=_geometry(request))


def _kind(shape: Any) -> str:
    """Layers that are made alike: the filter's size and whether it is depthwise."""
    among = "depthwise " if shape.channels == 1 and shape.groups > 1 else "grouped " if shape.groups > 1 else ""
    return f"{among}{'x'.join(map(str, shape.taps))}"


def _sizes(shape: Any) -> str:
    return f"{','.join(map(str, shape.input_shape))} > {','.join(map(str, shape.output_shape[1:]))}"


def _geometry(request: LayerRequest) -> str:
    from warpconv.codegen.layer import describe_geometry, describe_types
    from warpconv.codegen.spec import Operation
    shape = request.shape
    usual = ("stride 1", "padding 0")
    parts = [part for part in describe_geometry(shape).split(", ") if part not in usual]
    steps = "+".join(step.value for step in request.epilogue)
    types = describe_types(shape)
    return " ".join(filter(None, [
        "transposed" if request.operation is Operation.DATA_GRADIENT else "", "x".join(map(str, shape.taps)),
        " ".join(parts),
        "" if types == "float32" else types, f"+{steps}" if steps else ""]))


def _kinds(rows: Sequence[ModelRow]) -> tuple[ModelKindRow, ...]:
    """Where the time goes: by kind and algorithm, the most first."""
    from warpconv.records.models import ModelKindRow
    groups: dict[tuple[str, str | None], list[ModelRow]] = {}
    for row in rows:
        groups.setdefault((row.kind, row.algorithm), []).append(row)
    made = [ModelKindRow(kind=kind, algorithm=algorithm, layers=len(found),
                         seconds=sum(row.seconds or 0.0 for row in found),
                         floor_seconds=sum(row.floor_seconds for row in found))
            for (kind, algorithm), found in groups.items()]
    return tuple(sorted(made, key=lambda row: -row.seconds))


def _show(record: ModelRecord) -> None:
    out = console()
    heading(out, "model", f"{record.model}, {len(record.layers)} layers, {record.arch}")
    heading(out, "times", "the planner's estimates at an H200's rates, or * as measured (warpconv tune); floor: bytes "
                          "at the speed of a copy, or products at that of a matrix product")
    numbers = ("us", "of all", "floor us", "share", "workspace")
    made = table("node", "layer", "shape", "algorithm", *numbers, numbers=numbers)
    for row in record.layers:
        if row.seconds is None:
            add_row(made, row.node, row.geometry, row.sizes, "declined", None, None, _us(row.floor_seconds), None,
                    None, style="yellow")
            continue
        add_row(made, row.node, row.geometry, row.sizes, row.algorithm, _us(row.seconds) + "*" * row.measured,
                _percent(row.seconds, record.seconds), _us(row.floor_seconds),
                _percent(row.floor_seconds, row.seconds), size_text(row.workspace_bytes))
    add_row(made, "all", None, None, None, _us(record.seconds), "100 %", _us(record.floor_seconds),
            _percent(record.floor_seconds, record.seconds), size_text(record.workspace_bytes), style="bold")
    out.print(made)
    goes = table("where the time goes", "algorithm", "layers", "us", "of all", "share of the floor",
                 numbers=("layers", "us", "of all", "share of the floor"))
    for kind in record.kinds:
        add_row(goes, kind.kind, kind.algorithm, kind.layers, _us(kind.seconds), _percent(kind.seconds, record.seconds),
                _percent(kind.floor_seconds, kind.seconds))
    out.print(goes)
    for row in record.layers:
        if row.reason:
            heading(out, "declined", f"{row.node}: {row.reason}")
    show_left_out(out, record.left_out)
    heading(out, "sum", f"{seconds_text(record.seconds)} expected, {seconds_text(record.floor_seconds)} the floor; "
                        f"{record.tuning}")


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.3g}"


def _percent(part: float, whole: float) -> str | None:
    return f"{100 * part / whole:.3g} %" if whole else None
