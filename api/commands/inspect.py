"""``warpconv inspect``: a kernel's source, plan, launch, and what it costs: planned, counted, compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .edited import check_entries, read_source, with_banner
from .inspect_record import inspect_record
from .layer import LayerRequest, layer_options, templates_option
from .output import add_row, heading, json_option, size_text, table
from .requests import layers_argument, read_requests
from .several import answer

if TYPE_CHECKING:
    from warpconv.records.layers import InspectRecord


@click.command()
@layers_argument
@layer_options(operation=True)
@templates_option
@click.option("--source", "edited", metavar="FILE",
              help="Take this text, an emitted one that was edited; its head says the layer, unless options do.")
@click.option("--no-source", "source", flag_value=False, type=bool, default=True, help="Leave the source out.")
@click.option("--measure/--no-measure", default=True, show_default=True, help="Count by executing on the CPU device.")
@click.option("--ptx", is_flag=True, help="Show the PTX.")
@click.option("--sass", is_flag=True, help="Show the machine instructions.")
@json_option
@click.pass_context
def inspect(ctx: click.Context, layers: str | None, layer: str | None, edited: str | None, source: bool,
            measure: bool, ptx: bool, sass: bool, as_json: bool, **options: Any) -> None:
    """Show a layer's kernel: source, plan values, launch, planned and measured cost, registers.

    LAYERS is a TOML or JSON file, the name of a shipped one, an ONNX model (.onnx) or torchvision:NAME; or one layer is
    given in options. With several values of a plan value (--set exchange=select,packed) their plans stand side by side.
    """
    text = None
    if edited is not None:
        text = read_source(edited)
        options = options if layers is not None else with_banner(ctx, text, options)

    def record_of(request: LayerRequest) -> InspectRecord:
        plan = request.plan()
        if text is not None:
            check_entries(plan, text)
        return inspect_record(request, plan, source=source, measure=measure, ptx=ptx, sass=sass, edited=text)

    answer(ctx, read_requests(ctx, layers, layer, options), as_json, record_of, _show)


def _show(out: Any, record: InspectRecord) -> None:
    if record.source is not None:
        _show_text(out, record.source, "cuda")
    for text in (record.ptx, record.sass):
        if text is not None:
            _show_text(out, text, "text")
    for name, reason in (("PTX", record.ptx_reason), ("SASS", record.sass_reason)):
        if reason is not None:
            heading(out, name, f"not: {reason}")
    _show_plan(out, record)
    _show_launches(out, record)
    _show_cost(out, record)
    _show_compiled(out, record)


def _show_text(out: Any, text: str, language: str) -> None:
    """Highlighted on a terminal, otherwise exactly the text."""
    if out.is_terminal and language == "cuda":
        from rich.syntax import Syntax
        out.print(Syntax(text, "cuda", theme="ansi_dark", background_color="default"))
        return
    click.echo(text)


def _show_plan(out: Any, record: Any) -> None:
    heading(out, "layer", record.layer)
    if record.assumed:
        served = "such sizes are served as the plan demands" if record.demands else "any size is served"
        heading(out, "assumed", f"{', '.join(record.assumed)}: {served}; these are assumed for the figures")
    if record.changed_lines is not None:
        heading(out, "source", f"{record.changed_lines} lines are not as emitted")
    heading(out, "plan", f"{record.algorithm} for {record.arch}: {record.plan}")
    if record.demands:
        heading(out, "demands", record.demands)
    for note in record.notes:
        heading(out, "note", note)
    made = table("plan value", "set to", "may be (--set name=value)")
    for value in record.values:
        add_row(made, value.name, str(value.value), value.choices)
    out.print(made)


def _show_launches(out: Any, record: Any) -> None:
    made = table("launch", "grid", "block", "dynamic shared")
    for launch in record.launches:
        add_row(made, launch.entry, " x ".join(map(str, launch.grid)), " x ".join(map(str, launch.block)),
                f"{launch.shared_bytes} bytes")
    out.print(made)
    for call in record.library:
        heading(out, "library", f"{call.removeprefix('library ')}: cuBLAS on a GPU, NumPy on the CPU device; not of "
                                "the text")
    heading(out, "workspace", f"{size_text(record.workspace_bytes)} for {record.layer}")


def _show_cost(out: Any, record: Any) -> None:
    cost = record.cost
    heading(out, "planned", f"for {_one(cost['unit'])}: {cost['warp_loads']} warp loads, {cost['shuffles']} shuffles, "
                            f"{cost['fma']} FMA a lane; plain loading would take {cost['direct_loads']} loads")
    if record.measured is None:
        heading(out, "measured", f"not: {record.measured_reason}")
        return
    show_measured(out, record.measured, "the text above" if record.source is not None else
                  "the emitted text" if record.changed_lines is None else "the given text")


def _one(unit: str) -> str:
    """What a plan's cost is counted for, with its article."""
    return f"a {unit}" if unit[0].isalpha() and not unit.startswith("a ") else unit


def show_measured(out: Any, measured: Any, text: str) -> None:
    """The counts of one execution, and those of one unit beside the plan's."""
    heading(out, "measured", f"{text}, executed on the CPU device for {measured.layer}"
            + (f" ({measured.reduced})" if measured.reduced else ""))
    show_counts(out, measured)
    heading(out, "", f"max error {measured.max_error:.3g}, {100 * measured.worst_ratio:.3g} % of the bound at worst")
    if measured.units:
        show_units(out, measured.unit, measured.units)


def show_counts(out: Any, counts: Any) -> None:
    """Requests and sectors of each buffer, and what else was counted."""
    made = table("buffer", "load requests", "sectors", "store requests", "sectors ",
                 numbers=("load requests", "sectors", "store requests", "sectors "))
    for row in counts.buffers:
        add_row(made, row.buffer, row.load_requests, row.load_sectors, row.store_requests, row.store_sectors)
    out.print(made)
    heading(out, "", f"{counts.shuffles} shuffles, {counts.shared_requests} shared requests in "
                     f"{counts.shared_wavefronts} wavefronts, {counts.constant_requests} constant requests")


def show_units(out: Any, unit: str, units: Any) -> None:
    """Planned beside counted, for one unit of the plan's cost."""
    made = table(f"per {unit}", "planned", "measured", numbers=("planned", "measured"))
    for row in units:
        same = abs(row.planned - row.measured) < 1e-9
        add_row(made, row.figure, row.planned, f"{row.measured:g}", style=None if same else "yellow")
    out.print(made)


def _show_compiled(out: Any, record: Any) -> None:
    if record.compiled_reason is not None:
        heading(out, "compiled", f"not: {record.compiled_reason}")
        return
    heading(out, "compiled", f"for {record.arch} by {record.compiler}; planned: about "
                             f"{record.cost['registers']} registers")
    columns = ("registers", "stack", "spill stores", "spill loads", "static shared")
    made = table("entry", *columns, numbers=columns)
    for row in record.compiled:
        add_row(made, row.entry, row.registers, row.stack_bytes, row.spill_stores, row.spill_loads, row.shared_bytes)
    out.print(made)
