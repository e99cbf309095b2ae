"""``warpconv build``: kernels ahead of time, into a pack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from warpconv.codegen.errors import ArgumentError
from warpconv.codegen.hardware import Arch

from .layer import LayerRequest, layer_options, read_layer, templates_option
from .left_out import left_out_rows, show_left_out
from .output import add_row, console, echo_record, heading, json_option, seconds_text, table
from .requests import layers_argument, named_layers, refuse_layer

FAILED = 1      # exit code where a kernel could not be built
_STYLES = {"failed": "red", "declined": "yellow", "up-to-date": "dim"}


@click.command()
@layers_argument
@click.option("-o", "--output", metavar="PACK", required=True, help="The pack: a folder, or a zip if it ends in .zip.")
@click.option("--arch", "archs", metavar="sm_90", multiple=True,
              help="Architectures, as sm_80,sm_90; sm_90+PTX for its PTX too (default: WARPCONV_CUDA_ARCH_LIST, "
                   "else the GPUs here).")
@click.option("--ptx", is_flag=True, help="Put PTX in, for devices newer than the pack.")
@click.option("--weights", is_flag=True,
              help="Keep a model's filters and biases in the pack, with what is folded into them.")
@click.option("--jobs", type=int, metavar="N", help="Compilations at the same time (default: WARPCONV_COMPILE_JOBS).")
@click.option("--allow-spills", is_flag=True,
              help="Accept kernels that spill many registers though their plan promises not to.")
@click.option("--force", is_flag=True, help="Build a pack anew whose manifest is damaged.")
@layer_options(arch=False, operation=True)
@templates_option
@json_option
@click.pass_context
def build(ctx: click.Context, layers: str | None, layer: str | None, output: str, archs: tuple[str, ...], ptx: bool,
          weights: bool, jobs: int | None, allow_spills: bool, force: bool, as_json: bool, **options: Any) -> None:
    """Build kernels ahead of time, into a pack.

    LAYERS is a TOML or JSON file, the name of a shipped one, an ONNX model (.onnx) or torchvision:NAME; or one layer is
    given in options.

    What the pack has up to date is not compiled again. Exit code 1 if a kernel could not be built, none was, or a
    convolution of a model is left out because no kernel serves it.
    """
    wanted, targets = _layers(ctx, layers, layer, options), _archs(archs)
    _check_any(wanted)
    report = _build(wanted, targets, output, as_json, ptx=ptx, jobs=jobs, allow_spills=allow_spills,
                    force=force, weights=weights)
    record = _record(report, wanted)
    if as_json:
        echo_record(record)
    else:
        _show(record, report)
    if not report.ok or record.left_out or not _holds_kernels(report):
        ctx.exit(FAILED)


def _check_any(layers: Any) -> None:
    """Raises ArgumentError for a model without layers, with what was left out of it."""
    if not layers:
        left = "; ".join(f"{one.node} ({one.op}): {one.reason}" for one in layers.left_out[:4])
        raise ArgumentError("the model has no convolution that a kernel serves", argument="LAYERS", value=layers.source,
                            hint=left or "it has none at all")


def _build(layers: Sequence[Any], archs: Sequence[Arch | str], output: str, quiet: bool, **options: Any) -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from warpconv.runtime.pack.pack import build_pack
    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                   console=console(stderr=True), disable=quiet, transient=True)
    with bar:
        task = bar.add_task("compiling", total=len(layers) * len(archs))
        return build_pack(layers, output, archs, progress=lambda row: bar.advance(task), **options)


def _layers(ctx: click.Context, path: str | None, layer: str | None, options: dict[str, Any]) -> Sequence[Any]:
    """The layers of the file, or the one of the options. Raises InputFileError, ArgumentError or ShapeError."""
    given = options["input_"] is not None or options["filter_"] is not None
    if path is not None:
        return named_layers(ctx, path, layer, options)
    if not given:
        raise ArgumentError("name a LAYERS file, or give one layer with --input and --filter", argument="LAYERS",
                            value=path, hint="for instance: warpconv build twelve_layers --arch sm_90 -o PACK")
    refuse_layer(layer, options)
    return (_requested(read_layer(options)),)


def _requested(request: LayerRequest) -> Any:
    from warpconv.runtime.layers import NamedLayer, default_name

    @dataclass(frozen=True, kw_only=True)
    class Requested(NamedLayer):
        """A layer of the command line, with the index width that it asks for."""

        made: Callable[[Any], Any]

        def plan(self, arch: Any) -> Any:
            return self.made(arch)

    name = default_name(request.shape, epilogue=request.epilogue, algorithm=request.algorithm,
                        settings=request.settings, numerics=request.numerics, operation=request.operation)
    return Requested(name=name, shape=request.shape, epilogue=request.epilogue, algorithm=request.algorithm,
                     settings=request.settings, numerics=request.numerics, made=request.plan,
                     operation=request.operation)


def _archs(archs: tuple[str, ...]) -> Sequence[Arch | str]:
    """Those asked for, else those of the environment, else those of the GPUs. Raises ArgumentError for none."""
    if archs:
        words = [word.strip() for text in archs for word in text.split(",")]
        return _checked(list(dict.fromkeys(words)), "--arch")
    from warpconv.runtime.devices.cuda import contexts
    from warpconv.runtime.env import settings
    listed: Sequence[Arch | str] = _checked([f"{request.sm}+PTX" if request.ptx else request.sm
                                             for request in settings().cuda_arch_list], "WARPCONV_CUDA_ARCH_LIST")
    if not listed and contexts.usable() is None:
        listed = list(dict.fromkeys(Arch.read(contexts.arch(ordinal)) for ordinal in range(contexts.count())))
    if not listed:
        raise ArgumentError("for which architectures?", argument="--arch",
                            hint="for instance --arch sm_80 --arch sm_90, or set WARPCONV_CUDA_ARCH_LIST")
    return listed


def _checked(archs: Sequence[str], argument: str) -> Sequence[str]:
    """The same. Raises ArgumentError for one that kernels cannot be generated for."""
    for arch in archs:
        Arch.parse(arch[:-4] if arch.upper().endswith("+PTX") else arch, argument)
    return archs


def _record(report: Any, wanted: Any) -> Any:
    from warpconv.records.packs import BuildRecord, BuildRow
    rows = tuple(BuildRow(name=r.name, algorithm=r.algorithm, arch=r.arch, status=r.status, registers=r.registers,
                          spills=r.spills, stack=r.stack, shared=r.shared, bytes=r.bytes, reason=r.reason or None)
                 for r in report.rows)
    return BuildRecord(pack=str(report.path), seconds=report.seconds, ok=report.ok, kernels=rows,
                       left_out=left_out_rows(wanted))


def _show(record: Any, report: Any) -> None:
    out = console()
    columns = ("registers", "spills", "stack", "shared", "bytes")
    made = table("layer", "algorithm", "arch", *columns, "status", numbers=columns)
    for row in record.kernels:
        add_row(made, row.name, row.algorithm, row.arch, row.registers, row.spills, row.stack, row.shared, row.bytes,
                row.status, style=_STYLES.get(row.status))
    out.print(made)
    for row in record.kernels:
        if row.reason:
            heading(out, row.status, f"{row.name} for {row.arch}: {row.reason}")
    show_left_out(out, record.left_out)
    counts = ", ".join(f"{report.count(status)} {status}" for status in ("built", "up-to-date", "declined", "failed")
                       if report.count(status))
    written = record.pack if _holds_kernels(report) else "not written, there is no kernel for it"
    heading(out, "pack", f"{written}: {counts} in {seconds_text(record.seconds)}")


def _holds_kernels(report: Any) -> bool:
    """Whether a kernel that was asked for is in the pack."""
    return bool(report.count("built") or report.count("up-to-date"))
