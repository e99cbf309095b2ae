"""``warpconv explain``: every algorithm's answer for a layer."""

from __future__ import annotations

from typing import Any

import click

from .layer import LayerRequest, layer_options, read_layer
from .output import add_row, console, echo_record, heading, json_option, table


@click.command()
@layer_options()
@json_option
def explain(as_json: bool, **options: Any) -> None:
    """Say which algorithms can serve a layer, which is chosen, and why the others are not."""
    request = read_layer(options)
    record = explain_record(request)
    if as_json:
        echo_record(record)
        return
    out = console()
    heading(out, "layer", str(request))
    heading(out, "rule", "the fewest estimated warp instructions among the algorithms that can serve the layer"
            if request.algorithm == "auto" else f"--algorithm {request.algorithm}")
    made = table("", "algorithm", "warp instructions", "reason", "plan", numbers=("warp instructions",))
    for row in record.candidates:
        add_row(made, "*" if row.chosen else "", row.algorithm,
                "declined" if row.estimate is None else f"{row.estimate:.3g}",
                row.summary if row.estimate is not None else row.reason, row.plan,
                style="bold" if row.chosen else None if row.estimate is not None else "dim")
    out.print(made)


def explain_record(request: LayerRequest) -> Any:
    """The candidates as a record; one that was asked for by name or plan value answers with those.

    Raises UnsupportedSpec or ArgumentError where the request itself cannot be planned.
    """
    from warpconv.codegen.arch import DEFAULT_ARCH
    from warpconv.codegen.select import explain as candidates_for
    from warpconv.records import CandidateRow, ExplainRecord
    arch = request.arch or DEFAULT_ARCH
    candidates = candidates_for(request.shape, arch, epilogue=request.epilogue)
    chosen = request.plan().spec.algorithm if request.algorithm != "auto" or request.settings else next(
        (c.algorithm for c in candidates if c.supported), None)
    rows = [CandidateRow(algorithm=c.algorithm, chosen=c.algorithm == chosen, estimate=c.estimate, reason=c.reason,
                         summary=c.summary, plan=c.plan.phrase if c.plan else None) for c in candidates]
    rows.sort(key=lambda row: not row.chosen)
    return ExplainRecord(layer=str(request.shape), assumed=request.assumed, arch=str(arch), chosen=chosen,
                         candidates=tuple(rows))
