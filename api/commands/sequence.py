"""Layers of sequences on the command line, N,C,L and K,S, as the planes that conv1d computes them by."""

from __future__ import annotations

from typing import Any

from warpconv.codegen.errors import ArgumentError

_LAYOUTS = {"NCL": "NCHW", "NLC": "NHWC", "NCHW": "NCHW", "NHWC": "NHWC"}


def as_plane(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a layer; those of a sequence as a row's, or a column's where conv1d takes one. Raises
    ArgumentError."""
    sizes, taps = (str(options.get(name) or "").split(",") for name in ("input_", "filter_"))
    if len(sizes) != 3 or len(taps) != 2:
        return options
    layout = _LAYOUTS.get(str(options["layout"]).upper())
    if layout is None:
        raise ArgumentError("unknown layout of sequences", argument="--layout", value=options["layout"],
                            hint="NCL or NLC")
    last = layout == "NHWC"
    length, column = 1 if last else 2, last and _is_column(sizes[2], *taps, options["groups"])
    if sizes[length].strip().isalpha():
        sizes[length] = "H" if column else "W"
    sizes.insert(length + column, "1")
    taps.insert(1 + column, "1")

    def pair(one: str, other: str) -> str:
        return f"{other},{one}" if column else f"{one},{other}"

    numbers = {name: pair("1", options[name]) if options[name].isdigit() and options[name] != "1" else options[name]
               for name in ("stride", "dilation")}
    return {**options, "input_": ",".join(sizes), "filter_": ",".join(taps), "layout": layout, **numbers,
            "padding": _padding(options["padding"], taps[2 - column], options["dilation"], pair)}


def _is_column(channels: str, filters: str, taps: str, groups: str) -> bool:
    """Depthwise sequences whose channels lie side by side, with filters that `channels` takes, as conv1d has them."""
    from warpconv.runtime.call.way import may_be_column
    if not all(text.strip().isdigit() for text in (channels, filters, taps, groups)):
        return False
    return int(channels) == int(groups) and may_be_column((int(filters), 1, int(taps)))


def _padding(text: str, taps: str, dilation: str, pair: Any) -> str:
    """One number, two, 'causal', 'same' or 'valid'. Raises ArgumentError."""
    if text == "causal" and taps.isdigit() and dilation.isdigit():
        text = f"{int(dilation) * (int(taps) - 1)},0"
    if text in ("same", "valid", "0"):
        return text
    numbers = text.split(",")
    if len(numbers) > 2:
        raise ArgumentError("a sequence has two sides", argument="--padding", value=text,
                            hint="A, LEFT,RIGHT, causal, same or valid")
    return str(pair("0,0", ",".join(numbers * (3 - len(numbers)))))
