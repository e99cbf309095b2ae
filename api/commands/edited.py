"""``--source FILE``: an emitted text that somebody has edited, with the plan that launches it."""

from __future__ import annotations

import difflib
import re
import shlex
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from warpconv.codegen.errors import ArgumentError
from warpconv.runtime import paths

from .files import InputFileError

if TYPE_CHECKING:
    from warpconv.codegen.plan import KernelPlan

_HEAD = "// Emit it again with\n"
_LARGEST = 16 << 20     # bytes; emitted texts have some thousand lines


def read_source(path: str) -> str:
    """The text of a file. Raises InputFileError."""
    hint = "a .cu file that warpconv emit wrote"
    if paths.exists(path) and not paths.is_file(path):
        raise InputFileError("this is no regular file", argument="--source", value=path, hint=hint)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_LARGEST)
    except (OSError, ValueError) as error:
        raise InputFileError(f"the source cannot be read: {getattr(error, 'strerror', None) or error}",
                             argument="--source", value=path, hint=hint) from error
    return text


def with_banner(ctx: click.Context, text: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options of the command in the text's head, but what stands on the command line goes before. Without such a
    head the options as they are: they have to say the layer then."""
    said = _banner(text)
    typed = {name for name in options if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT}
    return {**options, **{name: value for name, value in said.items() if name not in typed}}


def check_border(ctx: click.Context, options: dict[str, Any]) -> None:
    """Raises ArgumentError where the value of a border 'constant' is not on the command line: it is an argument of the
    kernel, and what stands in the text's head is an example."""
    if options["padding_mode"] == "constant" and ctx.get_parameter_source("padding_value") is ParameterSource.DEFAULT:
        raise ArgumentError("the border's value is an argument of the kernel, which its text does not tell",
                            argument="--padding-value", hint="for instance --padding-value 0.5")


def check_entries(plan: KernelPlan, text: str) -> None:
    """Raises ArgumentError where the text lacks a kernel that the plan launches."""
    missing = [entry for entry in plan.program.entries if not re.search(rf"\b{re.escape(entry)}\s*\(", text)]
    if missing:
        raise ArgumentError(f"the text has no kernel {missing[0]}, which its plan launches", argument="--source",
                            hint="leave the kernel's name and the command in the head as they were emitted, or give "
                                 "the options that it was emitted with")


def changed_lines(plan: KernelPlan, text: str) -> int:
    """Lines that are not those of the emitted text: changed, added or taken away."""
    from warpconv.codegen.render import render
    matcher = difflib.SequenceMatcher(None, render(plan).text.splitlines(), text.splitlines(), autojunk=False)
    return sum(max(b - a, d - c) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal")


def _banner(text: str) -> dict[str, Any]:
    """The options in the head's command; empty where there is none. Raises ArgumentError for one that is none of
    emit's."""
    from .emit import emit
    _, found, rest = text.partition(_HEAD)
    if not found:
        return {}
    lines = rest.split("\n//\n")[0].splitlines()
    hint = "leave the head as it was emitted, or take its command out and give the options"
    try:
        words = shlex.split(" ".join(line.strip().removeprefix("//").removesuffix("\\") for line in lines))
        if words[:2] != ["warpconv", "emit"]:
            raise ValueError("it is not warpconv emit")
        params = emit.make_context("emit", words[2:]).params
    except (ValueError, click.ClickException) as error:
        raise ArgumentError(f"the command in the head cannot be read: {error}", argument="--source",
                            hint=hint) from error
    return {name: value for name, value in params.items()
            if name not in ("layers", "layer", "output", "as_json")}
