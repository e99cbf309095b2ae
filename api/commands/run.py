"""``warpconv run``: a layer on arrays in files."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import click
import numpy as np

from warpconv.codegen.dtypes import DType
from warpconv.codegen.epilogue import split_steps
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError
from warpconv.codegen.shape import INTEGER_WEIGHTS, PIXELS
from warpconv.codegen.spec import Numerics

from .device import choose_device, device_option, edited_kernel, make_kernel, note_device
from .edited import check_border, read_source, with_banner
from .files import check_output, read_array, write_array
from .layer import LayerRequest, layer_options, read_dtype, read_layer, templates_option
from .output import console, echo_record, json_option, printable, say, seconds_text

ELEMENTS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, *PIXELS)
OUTSIDE = 1     # exit code where --check finds an error beyond its bound


@click.command()
@click.argument("x")
@click.argument("w")
@click.argument("bias", required=False)
@click.option("--residual", metavar="R", help="A .npy file like the output; 'residual' in --epilogue says where it is "
                                              "added (else before --activation).")
@click.option("-o", "--output", metavar="Y", required=True, help="The .npy file to write.")
@layer_options(sizes=False)
@templates_option
@click.option("--source", metavar="FILE",
              help="Run this text, an emitted one that was edited, with the options of the command in its head; on the "
                   "CPU device every access is checked, and counted.")
@device_option
@click.option("--check", is_flag=True, help="Compare with a float64 reference; exit code 1 if beyond the error bound.")
@json_option
@click.pass_context
def run(ctx: click.Context, x: str, w: str, bias: str | None, residual: str | None, output: str,
        source: str | None, device: str, check: bool, as_json: bool, **options: Any) -> None:
    """Convolve the arrays in X (N, C, H, W) and W (K, C/groups, R, S), and BIAS (K), .npy files of one element type
    (integers in X: W of float32 or an integer type, BIAS of float32); of volumes X (N, C, D, H, W) and W (K, C/groups,
    T, R, S).

    With --layout NHWC the axes of X and of the output are N, H, W, C (of volumes N, D, H, W, C). bfloat16, which .npy
    files have no name for, is read as its 16 bits (uint16, or the '|V2' that ml_dtypes' arrays are saved as) with
    --dtype bfloat16, and written as X was (of other inputs as uint16).
    """
    from warpconv.runtime.arrays.elements import from_bits
    _check_output(output, (x, w, bias, residual, source))
    text = None if source is None else read_source(source)
    if text is not None:
        options = with_banner(ctx, text, options)
        check_border(ctx, options)
    if text is not None and bias is not None and "bias" not in split_steps(options["epilogue"]):
        raise ArgumentError("the text was emitted without a bias", argument="BIAS", value=bias,
                            hint="emit it with --epilogue bias, or leave BIAS out")
    arrays = [read_array(path, name) if path is not None else None
              for path, name in ((x, "X"), (w, "W"), (bias, "BIAS"))]
    saved_as = arrays[0].dtype
    arrays, dtype, weight_dtype = _elements(arrays, options["dtype"])
    request = read_layer(options, shapes=(arrays[0].shape, arrays[1].shape), dtype=dtype, weight_dtype=weight_dtype,
                         bias=bias is not None, residual=residual is not None)
    added = None if residual is None else from_bits(read_array(residual, "--residual"), request.shape.y_dtype)
    place, reason = choose_device(device, request.shape)
    if not as_json:
        note_device(reason)
    kernel, reports = (make_kernel(request, place), None) if text is None else edited_kernel(request, place, text)
    start = time.perf_counter()
    result = kernel(*arrays, residual=added)
    seconds = time.perf_counter() - start
    if request.shape.y_dtype is DType.BFLOAT16:
        result = result.view(saved_as if request.shape.dtype is DType.BFLOAT16 else np.uint16)
    write_array(output, result, "--output")
    record = _record(request, kernel, seconds, output, _check(request, arrays, added, result) if check else None,
                     None if reports is None else _counts(reports))
    _show(record, request, as_json)
    if record.check is not None and not record.check.within:
        click.echo("warpconv: the result is outside the error bound", err=True)
        ctx.exit(OUTSIDE)


def _check_output(output: str, inputs: tuple[str | None, ...]) -> None:
    if not output.endswith(".npy"):
        raise ArgumentError("the output is a .npy file", argument="--output", value=output,
                            hint="end its name in .npy")
    check_output(output, inputs, "--output")


def _elements(arrays: list[Any], asked: str | None) -> tuple[list[Any], DType, DType]:
    """The arrays with the elements that they hold, X's type and W's: all of one, but for images of integers. Raises
    ArgumentTypeError where they are not."""
    from warpconv.runtime.arrays.elements import from_bits
    named = next((d for d in ELEMENTS if d.value == arrays[0].dtype.name), None)
    dtype = named if asked is None else read_dtype(asked)
    taken = ", ".join(d.value for d in ELEMENTS)
    if dtype is None:
        raise ArgumentTypeError(f"the elements are {arrays[0].dtype}; {taken} are accepted", argument="X",
                                hint="save array.astype(numpy.float32)" + (
                                    ", or give --dtype bfloat16 for its bits" if arrays[0].dtype.itemsize == 2 else ""))
    arrays = [array if array is None else from_bits(array, dtype) for array in arrays]
    filters = (DType.FLOAT32, *INTEGER_WEIGHTS) if dtype.is_integer else (dtype,)
    allowed = {"X": (dtype,), "W": filters, "BIAS": filters[:1]}
    for name, array in zip(allowed, arrays):
        names = [d.value for d in allowed[name]]
        if array is not None and array.dtype.name not in names:
            raise ArgumentTypeError(f"the elements are {array.dtype}, {' or '.join(names)} is accepted here",
                                    argument=name, hint=f"save array.astype({names[0]!r})"
                                    if dtype is not DType.BFLOAT16 else
                                    "save array.astype(ml_dtypes.bfloat16), or its bits as uint16")
    return arrays, dtype, next(d for d in filters if d.value == arrays[1].dtype.name)


def _check(request: LayerRequest, arrays: list[Any], residual: Any, result: Any) -> Any:
    import numpy as np
    from warpconv.runtime.arrays.elements import values
    from warpconv.runtime.accuracy.reference import compare, reference
    x, w, bias = arrays
    layer = {"bias": bias, "residual": residual, "epilogue": request.epilogue, "numerics": request.numerics}
    with np.errstate(invalid="ignore", over="ignore"):
        row = accuracy_row(compare(result, x, w, request.shape, **layer))
        ours = ~np.isfinite(values(result, request.shape.y_dtype))
        if row.within and not ours.any():
            return row
        exact = reference(x, w, request.shape, **layer)
        theirs = ~np.isfinite(exact.output) | (ours & (exact.overflows | exact.undetermined))
    in_one = int(np.count_nonzero(ours != theirs))
    return replace(row, not_finite=int(np.count_nonzero(ours & theirs)), finite_in_one=in_one,
                   within=row.within and in_one == 0)


def accuracy_row(found: Any) -> Any:
    """An Accuracy as plain, finite data."""
    from warpconv.records.runs import AccuracyRow
    largest = 1e300
    return AccuracyRow(max_error=min(found.max_error, largest), bound=min(found.bound, largest),
               worst_ratio=min(found.worst_ratio, largest), within=found.within)


def _counts(reports: Any) -> Any:
    """What the CPU device counted."""
    from warpconv.records.runs import CountsRecord
    from warpconv.runtime.accuracy.measure import summed
    from .inspect_record import buffer_rows
    buffers, totals = summed(reports)
    return CountsRecord(buffers=buffer_rows(buffers), **totals)


def _record(request: LayerRequest, kernel: Any, seconds: float, output: str, check: Any, counts: Any) -> Any:
    from warpconv.records.runs import RunRecord
    return RunRecord(layer=str(request.shape), algorithm=kernel.spec.algorithm, device=kernel.device, seconds=seconds,
                     output=output, check=check, counts=counts)


def _bound(request: LayerRequest) -> str:
    """The bound of runtime.reference, in short."""
    from warpconv.runtime.accuracy.finish import LINEAR
    dtype = request.shape.y_dtype
    eps = "eps" if request.numerics is not Numerics.FLOAT16 else f"half of {request.shape.dtype.value}'s eps"
    stored = (f", as {dtype.value} has it" if dtype.is_integer else
              f" + half a step of {dtype.value}" if dtype.itemsize == 2 else "")
    steps = ", through the epilogue" if any(step not in LINEAR for step in request.epilogue) else ""
    dropped = f" + {request.numerics.dropped:.3g}" if request.numerics.dropped else ""
    taps = "C/groups*T*R*S" if request.shape.is_volume else "C/groups*R*S"
    factor = f"(({taps} + 2) * {eps}{dropped})" if dropped else f"({taps} + 2) * {eps}"
    return f"{factor} * sum |a*b|{steps}{stored}"


def _show(record: Any, request: LayerRequest, as_json: bool) -> None:
    if as_json:
        echo_record(record)
        return
    say(f"{record.layer}\n{record.algorithm} on {record.device}: {seconds_text(record.seconds)}, "
        f"written to {printable(record.output, lines=False)}")
    if record.counts is not None:
        from .inspect import show_counts
        show_counts(console(), record.counts)
    if record.check is not None:
        verdict = "within" if record.check.within else "OUTSIDE"
        click.echo(f"max error {record.check.max_error:.3g}, {verdict} the bound "
                   f"{_bound(request)} ({100 * record.check.worst_ratio:.3g} % of it at worst)")
        if record.check.not_finite:
            click.echo(f"{record.check.not_finite} outputs are not finite, here and in the reference: not compared")
        if record.check.finite_in_one:
            click.echo(f"{record.check.finite_in_one} outputs are finite in only one of result and reference")
