"""``warpconv explain``: every algorithm's answer for a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .layer import LayerRequest, layer_options
from .output import add_row, heading, json_option, size_text, table
from .requests import layers_argument, read_requests
from .several import answer

if TYPE_CHECKING:
    from warpconv.codegen.hardware import Arch
    from warpconv.records.layers import ExplainRecord


@click.command()
@layers_argument
@layer_options(operation=True)
@json_option
@click.pass_context
def explain(ctx: click.Context, layers: str | None, layer: str | None, as_json: bool, **options: Any) -> None:
    """Say which algorithms can serve a layer, which is chosen, and why the others are not.

    LAYERS is a TOML or JSON file, the name of a shipped one, an ONNX model (.onnx) or torchvision:NAME; or one layer is
    given in options. With several values of a plan value (--set exchange=select,packed) their plans stand side by side.

    Of a model it is a table: what each layer is expected to take, its floor, and where the time goes; --layer NODE
    explains one of them.
    """
    asked = read_requests(ctx, layers, layer, options)
    if asked.model is not None and asked.model.is_model and layer is None:
        from .explain_model import explain_model
        explain_model(ctx, asked, as_json)
        return
    answer(ctx, asked, as_json, explain_record, _show)


def _show(out: Any, record: ExplainRecord) -> None:
    heading(out, "layer", record.layer + (f" ({', '.join(record.assumed)} assumed)" if record.assumed else ""))
    heading(out, "rule", "the fewest estimated issue slots among the algorithms that can serve the layer"
            if record.asked == "auto" else f"--algorithm {record.asked}")
    heading(out, "tuning", record.tuning)
    made = table("", "algorithm", "issue slots", "workspace", "reason", "plan",
                 numbers=("issue slots", "workspace"))
    for row in record.candidates:
        add_row(made, "*" if row.chosen else "", row.algorithm,
                "declined" if row.estimate is None else f"{row.estimate:.3g}",
                "" if row.workspace_bytes is None else size_text(row.workspace_bytes),
                row.summary if row.estimate is not None else row.reason,
                f"{row.plan}; needs {row.demands}" if row.demands else row.plan,
                style="bold" if row.chosen else None if row.estimate is not None else "dim")
    out.print(made)


def explain_record(request: LayerRequest) -> ExplainRecord:
    """The candidates as a record; one that was asked for by name or plan value answers with those.

    Raises UnsupportedSpec or ArgumentError where the request itself cannot be planned.
    """
    from warpconv.codegen.select import explain as candidates_for
    from warpconv.codegen.spec import Operation
    from warpconv.records.layers import CandidateRow, ExplainRecord
    arch, tuning, where = tuning_of(request)
    candidates = candidates_for(request.shape, arch, epilogue=request.epilogue, tuning=tuning,
                                numerics=request.numerics, workspace_limit=request.workspace_limit,
                                operation=request.operation)
    if tuning is not None and request.operation is Operation.FORWARD:
        where = tuning.origin(request.shape, arch, request.numerics)
        if candidates[0].reason != where:
            measured = tuning.best(request.shape, arch, request.numerics) is not None
            where += f"{', with plan values that this version refuses' if measured else ''}: the rule chooses"
    chosen = request.plan(arch).spec.algorithm if request.algorithm != "auto" or request.settings else next(
        (c.algorithm for c in candidates if c.supported), None)
    rows = [CandidateRow(algorithm=c.algorithm, chosen=c.algorithm == chosen, estimate=c.estimate, reason=c.reason,
                         summary=c.summary, plan=c.plan.phrase if c.plan else None,
                         demands=c.plan.program.demands if c.plan else "",
                         workspace_bytes=c.plan.program.workspace_bytes(request.shape) if c.plan else None)
            for c in candidates]
    rows.sort(key=lambda row: not row.chosen)
    return ExplainRecord(layer=str(request.shape), assumed=request.assumed, arch=str(arch), asked=request.algorithm,
                         chosen=chosen,
                         candidates=tuple(rows), tuning=where)


def tuning_of(request: LayerRequest) -> tuple[Arch, Any, str]:
    """The architecture, the table of measured choices, and why there is none."""
    from warpconv.codegen.hardware import DEFAULT_ARCH, Arch
    from warpconv.codegen.numerics import Accumulator
    from warpconv.codegen.spec import Operation
    from warpconv.runtime.devices.cuda import contexts
    from warpconv.runtime.tuning import table
    arch = request.arch or DEFAULT_ARCH
    if request.algorithm != "auto" or request.settings:
        return arch, None, "not asked: the options choose"
    if request.operation is not Operation.FORWARD:
        return arch, None, f"not asked for a {request.operation.value.replace('_', ' ')}: the rule chooses"
    if request.numerics.accumulator is not Accumulator.FLOAT32:
        return arch, None, f"not asked: {request.numerics.value} arithmetic is not measured"
    if request.tuning is not None:
        return arch, request.table(arch), ""
    if contexts.usable() is not None:
        return arch, None, "no GPU here whose measurements would count: the rule chooses (--tuning FILE follows a file)"
    ordinal = contexts.default_device()
    here = Arch.read(contexts.arch(ordinal))
    if request.arch not in (None, here):
        return arch, None, f"the GPU here is no {arch}: the rule chooses (--tuning FILE follows a file)"
    return here, table(ordinal), ""
