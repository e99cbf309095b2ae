"""``warpconv demo``: a photograph through three specialised kernels, with their costs, times and errors."""

from __future__ import annotations

from typing import Any

import click

from .device import choose_device, device_option, note_device
from .files import output_folder
from .output import add_row, console, echo_record, heading, json_option, seconds_text, table

DEFAULT_FOLDER = "warpconv-demo"


@click.command()
@device_option
@click.option("-o", "--output", metavar="DIR", default=DEFAULT_FOLDER, show_default=True,
              help="Folder for the pictures and the emitted CUDA.")
@click.option("--kernel", metavar="NAME|FILE.npy", default="emboss:7", show_default=True,
              help="The 7x7 filter: emboss:7, gaussian:7,1.5, log:7, unsharp:7,2, box:7, motion:7,45, or a file.")
@json_option
def demo(device: str, output: str, kernel: str, as_json: bool) -> None:
    """Filter a real photograph: 5x5 Gaussian, 3x3 Sobel, and a 7x7 of your choice."""
    from .demo_run import photograph, run_demo, seven_by_seven
    chosen = seven_by_seven(kernel)
    picture, path = photograph()
    place, reason = choose_device(device, picture.layer)
    if not as_json:
        note_device(reason)
    status = console(stderr=True, quiet=as_json).status("emitting, compiling, running, counting ...")
    with output_folder(output) as folder, status:
        record = run_demo(picture, path, place, folder, kernel, chosen)
    if as_json:
        echo_record(record)
    else:
        _show(console(), record)


def _show(out: Any, record: Any) -> None:
    heading(out, "photo", record.photograph)
    heading(out, "device", record.device if record.device != "cpu" else
            "the CPU device: the emitted CUDA text, compiled by the C++ compiler")
    for row in record.layers:
        heading(out, row.name, row.layer)
        heading(out, "", f"{row.algorithm}, {seconds_text(row.seconds)}; emitted CUDA: {row.source}")
    _show_costs(out, record)
    made = table("error against float64", "largest error", "largest bound", "error / its bound", "",
                 numbers=("largest error", "largest bound", "error / its bound"))
    for row in record.layers:
        add_row(made, row.name, f"{row.accuracy.max_error:.3g}", f"{row.accuracy.bound:.3g}",
                f"{100 * row.accuracy.worst_ratio:.3g} %", "within" if row.accuracy.within else "OUTSIDE",
                style=None if row.accuracy.within else "red")
    out.print(made)
    heading(out, "pictures", ", ".join(record.pictures))
    heading(out, "total", seconds_text(record.seconds))


def _show_costs(out: Any, record: Any) -> None:
    if record.counts_reason is not None:
        heading(out, "counts", f"not measured: {record.counts_reason}")
        return
    columns = ("loads planned", "counted", "shuffles planned", "counted ")
    made = table("cost: one warp", "its unit of work", *columns, numbers=columns)
    for row in record.layers:
        if not row.units:
            continue
        loads, shuffles = row.units
        add_row(made, row.name, row.unit.removesuffix(", all channels"), loads.planned, f"{loads.measured:g}",
                shuffles.planned, f"{shuffles.measured:g}")
    out.print(made)
    columns = ("this kernel", "plain loading", "saved", "shuffles")
    made = table("cost: a whole plane, per 32 outputs", *columns, numbers=columns)
    for row in record.layers:
        ours, plain = row.loads_per_32, row.direct_loads_per_32
        add_row(made, row.name, f"{ours:.3g} loads", f"{plain:.3g} loads", f"{100 * (1 - ours / plain):.0f} %",
                f"{row.shuffles_per_32:.3g}")
    out.print(made)
