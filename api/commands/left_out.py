"""The nodes of a model that no kernel serves, in every verb that takes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .output import add_row, table


def left_out_rows(layers: Any) -> tuple[Any, ...]:
    """A Model's, as plain data; nothing of layers that are none."""
    from warpconv.records.layers import LeftOutRow
    return tuple(LeftOutRow(node=one.node, op=one.op, reason=one.reason) for one in getattr(layers, "left_out", ()))


def show_left_out(out: Any, rows: Sequence[Any]) -> None:
    """A table of them, where there are any."""
    if rows:
        made = table("left out", "operation", "why")
        for row in rows:
            add_row(made, row.node, row.op, row.reason, style="yellow")
        out.print(made)
