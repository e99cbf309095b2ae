"""``warpconv pack``: what is in a pack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .output import add_row, console, echo_record, heading, json_option, size_text, table

if TYPE_CHECKING:
    from warpconv.records.packs import PackRecord


@click.group()
def pack() -> None:
    """Look into a pack of ready kernels (build makes one)."""


@pack.command("list")
@click.argument("path", metavar="PACK")
@json_option
def list_kernels(path: str, as_json: bool) -> None:
    """List the kernels of PACK, a folder or a zip, after all of its files were checked.

    Exit code 1 if it is missing or damaged.
    """
    record = _record(path)
    if as_json:
        echo_record(record)
        return
    out = console()
    columns = ("registers", "spills", "bytes")
    made = table("layers", "algorithm", "arch", "of the layer", "epilogue", *columns, numbers=columns)
    for row in record.kernels:
        add_row(made, ", ".join(row.layers), row.algorithm, f"{row.arch}{' + PTX' if row.ptx else ''}", row.layer,
                ", ".join(row.epilogue) or None, row.registers, row.spills, row.bytes)
    out.print(made)
    heading(out, "pack", f"{record.pack}: {len(record.kernels)} kernels, "
                         f"{size_text(sum(row.bytes for row in record.kernels))}, by warpconv {record.generator}")


def _record(path: str) -> PackRecord:
    """Raises PackError."""
    from warpconv.records.packs import PackRecord, PackRow
    from warpconv.runtime.pack.pack import open_pack
    opened = open_pack(path)
    rows = tuple(_row(PackRow, kernel) for kernel in opened.kernels())
    return PackRecord(pack=str(opened.path), generator=opened.generator.get("version"), kernels=rows)


def _row(made: Any, kernel: Any) -> Any:
    spec, entries = kernel.spec, kernel.report.entries
    return made(id=kernel.id, layers=kernel.layers, layer=str(spec.layer), algorithm=spec.algorithm,
                arch=str(spec.arch), ptx=kernel.ptx_isa is not None, epilogue=tuple(s.value for s in spec.epilogue),
                settings=dict(kernel.settings), registers=max((e.registers for e in entries), default=0),
                spills=sum(e.spill_stores + e.spill_loads for e in entries), bytes=kernel.size)
