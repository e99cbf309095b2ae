"""``warpconv run``: a layer on arrays in files."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import click

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError

from .device import choose_device, device_option, make_kernel, note_device
from .files import check_output, read_array, write_array
from .layer import LayerRequest, layer_options, read_layer
from .output import echo_record, json_option, seconds_text

OUTSIDE = 1     # exit code where --check finds an error beyond its bound


@click.command()
@click.argument("x")
@click.argument("w")
@click.argument("bias", required=False)
@click.option("-o", "--output", metavar="Y", required=True, help="The .npy file to write.")
@layer_options(sizes=False)
@device_option
@click.option("--check", is_flag=True, help="Compare with a float64 reference; exit code 1 if beyond the error bound.")
@json_option
@click.pass_context
def run(ctx: click.Context, x: str, w: str, bias: str | None, output: str, device: str, check: bool, as_json: bool,
        **options: Any) -> None:
    """Convolve the arrays in X (N, C, H, W) and W (K, C/groups, R, S), and BIAS (K), .npy files of float32."""
    _check_output(output, (x, w, bias))
    arrays = [read_array(path, name) if path is not None else None
              for path, name in ((x, "X"), (w, "W"), (bias, "BIAS"))]
    _check_types(arrays)
    request = read_layer(options, shapes=(arrays[0].shape, arrays[1].shape), bias=bias is not None)
    place, reason = choose_device(device, request.shape)
    if not as_json:
        note_device(reason)
    kernel = make_kernel(request, place)
    start = time.perf_counter()
    result = kernel(*arrays)
    seconds = time.perf_counter() - start
    write_array(output, result, "--output")
    record = _record(request, kernel, seconds, output, _check(request, arrays, result) if check else None)
    _show(record, as_json)
    if record.check is not None and not record.check.within:
        click.echo("warpconv: the result is outside the error bound", err=True)
        ctx.exit(OUTSIDE)


def _check_output(output: str, inputs: tuple[str | None, ...]) -> None:
    if not output.endswith(".npy"):
        raise ArgumentError("the output is a .npy file", argument="--output", value=output,
                            hint="end its name in .npy")
    check_output(output, inputs, "--output")


def _check_types(arrays: list[Any]) -> None:
    for name, array in zip(("X", "W", "BIAS"), arrays):
        if array is not None and array.dtype.name != "float32":
            raise ArgumentTypeError(f"the elements are {array.dtype}, float32 is accepted", argument=name,
                                    hint="save array.astype(numpy.float32)")


def _check(request: LayerRequest, arrays: list[Any], result: Any) -> Any:
    import numpy as np
    from warpconv.runtime.reference import compare, reference
    x, w, bias = arrays
    layer = {"bias": bias, "epilogue": request.epilogue}
    with np.errstate(invalid="ignore", over="ignore"):
        row = accuracy_row(compare(result, x, w, request.shape, **layer))
        ours = ~np.isfinite(result)
        if row.within and not ours.any():
            return row
        theirs = ~np.isfinite(reference(x, w, request.shape, **layer).output)
    in_one = int(np.count_nonzero(ours != theirs))
    return replace(row, not_finite=int(np.count_nonzero(ours & theirs)), finite_in_one=in_one,
                   within=row.within and in_one == 0)


def accuracy_row(found: Any) -> Any:
    """An Accuracy as plain, finite data."""
    from warpconv.records import AccuracyRow
    largest = 1e300
    return AccuracyRow(max_error=min(found.max_error, largest), bound=min(found.bound, largest),
               worst_ratio=min(found.worst_ratio, largest), within=found.within)


def _record(request: LayerRequest, kernel: Any, seconds: float, output: str, check: Any) -> Any:
    from warpconv.records import RunRecord
    return RunRecord(layer=str(request.shape), algorithm=kernel.spec.algorithm, device=kernel.device, seconds=seconds,
                     output=output, check=check)


def _show(record: Any, as_json: bool) -> None:
    if as_json:
        echo_record(record)
        return
    click.echo(f"{record.layer}\n{record.algorithm} on {record.device}: {seconds_text(record.seconds)}, "
               f"written to {record.output}")
    if record.check is not None:
        verdict = "within" if record.check.within else "OUTSIDE"
        click.echo(f"max error {record.check.max_error:.3g}, {verdict} the bound "
                   f"(C/groups*R*S + 2) * eps * sum |a*b| ({100 * record.check.worst_ratio:.3g} % of it at worst)")
        if record.check.not_finite:
            click.echo(f"{record.check.not_finite} outputs are not finite, here and in the reference: not compared")
        if record.check.finite_in_one:
            click.echo(f"{record.check.finite_in_one} outputs are finite in only one of result and reference")
