"""Answers for several layers and architectures, one after the other, and plans side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from warpconv.codegen.errors import ArgumentError, ShapeError, UnsupportedSpec
from warpconv.codegen.hardware import DEFAULT_ARCH

from .output import add_row, console, echo_record, heading, size_text, table
from .requests import Asked
from .wording import worded

if TYPE_CHECKING:
    from warpconv.records.layers import CompareRecord, ComparedRow

    from .layer import LayerRequest

DECLINED = 1        # exit code where one of several layers has no such kernel


def answer(ctx: click.Context, asked: Asked, as_json: bool, record_of: Callable[[LayerRequest], Any],
           show: Callable[[Any, Any], None]) -> None:
    """Print a record for each request, or the comparison of those that differ in plan values. Of several, one that
    cannot be had is told and the others follow; the exit code is then 1.

    Raises as ``record_of`` where only one was asked for.
    """
    from warpconv.records.layers import ManyRecord, ResultRow
    out = console()
    rows = []
    for group in asked.groups:
        first = group[0]
        if asked.many and not as_json:
            title = f"{first.name}: " if first.name else ""
            heading(out, "=" * 12, f"{title}{first.shape}, {first.arch or DEFAULT_ARCH}")
        record, reason = None, None
        try:
            record = record_of(first) if len(group) == 1 else compare_record(group)
        except (UnsupportedSpec, ArgumentError, ShapeError) as error:
            if not asked.many:
                raise
            reason = str(worded(error))
        rows.append(ResultRow(name=first.name, reason=reason, result=record))
        if as_json:
            continue
        if record is None:
            heading(out, "declined", reason)
        elif len(group) > 1:
            show_compared(out, record)
        else:
            show(out, record)
    if as_json:
        echo_record(ManyRecord(results=tuple(rows)) if asked.many else rows[0].result)
    if any(row.result is None for row in rows):
        ctx.exit(DECLINED)


def compare_record(group: Sequence[LayerRequest]) -> CompareRecord:
    """A plan for each combination of plan values. Raises ArgumentError or UnsupportedSpec where there is none at all,
    as the first of them does."""
    from warpconv.records.layers import CompareRecord
    first = group[0]
    rows = tuple(_compared(request) for request in group)
    if all(row.plan is None for row in rows):
        first.plan()
    return CompareRecord(layer=str(first.shape), assumed=first.assumed, arch=str(first.arch or DEFAULT_ARCH),
                         plans=rows)


def _compared(request: LayerRequest) -> ComparedRow:
    from warpconv.codegen.registry import algorithm
    from warpconv.records.layers import ComparedRow
    try:
        plan = request.plan()
    except (UnsupportedSpec, ArgumentError) as error:
        return ComparedRow(settings=dict(request.settings), algorithm=request.algorithm, plan=None, demands="",
                           cost=None, estimate=None, workspace_bytes=None, reason=str(worded(error)))
    return ComparedRow(settings=dict(request.settings), algorithm=plan.spec.algorithm, plan=plan.phrase,
                       demands=plan.program.demands, cost=asdict(plan.cost),
                       estimate=algorithm(plan.spec.algorithm).slots(plan, request.shape),
                       workspace_bytes=plan.program.workspace_bytes(request.shape), reason=None)


def show_compared(out: Any, record: CompareRecord) -> None:
    """A column for each combination, named by the values that are not the same in all."""
    heading(out, "layer", f"{record.layer}, {record.arch}" + (f" ({', '.join(record.assumed)} assumed)"
                                                              if record.assumed else ""))
    plans = record.plans
    varied = [name for name in plans[0].settings if len({row.settings[name] for row in plans}) > 1]
    made = table("", *("\n".join(f"{name}={row.settings[name]}" for name in varied) for row in plans))
    figures = (("warp loads", "warp_loads"), ("shuffles", "shuffles"), ("FMA a lane", "fma"),
               ("registers, planned", "registers"))
    add_row(made, "algorithm", *(row.algorithm for row in plans))
    add_row(made, "plan", *(row.plan or "declined" for row in plans))
    add_row(made, "demands", *(row.demands or "-" for row in plans))
    add_row(made, "cost, for a", *(row.cost and row.cost["unit"] for row in plans))
    for title, name in figures:
        add_row(made, title, *(row.cost and row.cost[name] for row in plans))
    add_row(made, "issue slots", *(None if row.estimate is None else f"{row.estimate:.3g}" for row in plans))
    add_row(made, "workspace", *(None if row.workspace_bytes is None else size_text(row.workspace_bytes)
                                 for row in plans))
    if any(row.reason for row in plans):
        add_row(made, "reason", *(row.reason for row in plans))
    out.print(made)
