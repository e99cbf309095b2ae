"""A layer on the command line: the options that the verbs share, and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from warpconv.codegen.banner import ASSUMED_SIDE
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.epilogue import Epilogue, parse_epilogue, split_steps
from warpconv.codegen.errors import ArgumentError, FileError
from warpconv.codegen.hardware import DEFAULT_ARCH, Arch
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.resolution import Tuning, plan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Numerics, Operation, index_bits

from .complete import complete_algorithm, complete_border, complete_layout, complete_type
from .files import InputFileError
from .sequence import as_plane

# what a letter in --input stands for until real sizes are known
ASSUMED = {"N": 1, "D": ASSUMED_SIDE, "H": ASSUMED_SIDE, "W": ASSUMED_SIDE}

_SHORT = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}     # element types as they are often written

_SIZES = (
    click.option("--input", "input_", metavar="N,C,H,W",
                 help="Sizes of the input, in the order of --layout; N, H and W may be left as letters: any size. Of "
                      "volumes five, N,C,D,H,W, of sequences three, N,C,L."),
    click.option("--filter", "filter_", metavar="K,R,S",
                 help="Number, height and width of the filters; of volumes K,T,R,S, T planes, of sequences K,S."),
)
_GEOMETRY = (
    click.option("--stride", metavar="A|A,B", default="1", show_default=True,
                 help="Vertical, horizontal; of volumes A or depth, vertical, horizontal, here and below."),
    click.option("--padding", metavar="A|A,B|T,B,L,R|same|valid", default="0", show_default=True,
                 help="Pixels around; of volumes also front, back, top, bottom, left, right."),
    click.option("--padding-mode", metavar="MODE", default="zeros", show_default=True, shell_complete=complete_border,
                 help="What they are: zeros, constant, replicate, reflect, symmetric or circular."),
    click.option("--padding-value", metavar="V", default="0", help="The value of --padding-mode constant."),
    click.option("--dilation", metavar="A|A,B", default="1", show_default=True, help="Vertical, horizontal."),
    click.option("--groups", metavar="G", default="1", show_default=True, help="Groups of channels."),
)
_KERNEL = (
    click.option("--epilogue", metavar="bias,relu", default="",
                 help="Steps applied to each output, in order, e.g. 'bias,clamp(0,6)' (docs/epilogues.md)."),
    click.option("--activation", metavar="relu", help="A last step of the epilogue."),
    click.option("--algorithm", metavar="A", default="auto", show_default=True, shell_complete=complete_algorithm,
                 help="Name of an algorithm; explain lists them."),
    click.option("--set", "sets", metavar="NAME=VALUE", multiple=True, help="A plan value; inspect lists them."),
    click.option("--workspace-limit", metavar="BYTES",
                 help="Decline plans that take more workspace, as 64K, 512M, 2G (default: WARPCONV_WORKSPACE_LIMIT)."),
    click.option("--index-bits", metavar="32|64", help="Width of the index arithmetic (default: as needed)."),
)
_DTYPE = {True: click.option("--dtype", metavar="TYPE", default="float32", show_default=True,
                             shell_complete=complete_type,
                             help="Element type: float32, float16, bfloat16, uint8, int8, uint16 or int16."),
          False: click.option("--dtype", metavar="TYPE", shell_complete=complete_type,
                              help="Element type (default: the arrays'); bfloat16 for its 16 bits.")}
_TYPES = (
    click.option("--out-dtype", metavar="TYPE", shell_complete=complete_type,
                 help="Element type of the output (default: the input's)."),
    click.option("--cast", metavar="nearest|truncate", default="nearest", show_default=True,
                 help="To integers: to nearest even, limited to the range; or as C casts."),
)
_WEIGHT_DTYPE = click.option("--weight-dtype", metavar="TYPE", shell_complete=complete_type,
                             help="Of an integer layer's filter: float32 (default), int8, int16 or int32.")
_SEPARABLE = click.option("--separable", is_flag=True,
                          help="Filters of one channel that are columns times rows, given as these factors.")
_PITCHED = click.option("--pitched", is_flag=True,
                        help="Arrays may have gaps between rows, planes and images: the distances are arguments.")
_FORM = (
    click.option("--layout", metavar="NCHW|NHWC", default="NCHW", show_default=True, shell_complete=complete_layout,
                 help="Order of the axes of input and output, in memory too."),
    click.option("--accumulate", metavar="float32|float16", default="float32", show_default=True,
                 help="Arithmetic of products and sums; float16: in the 16-bit element type, quicker and less exact."),
    click.option("--precision", metavar="float32|ieee|tf32x3|fp16x3|tf32", default="float32", show_default=True,
                 help="Of products of float32 elements; float32: the quickest as exact as ieee (docs/precision.md)."),
)
_TUNING = click.option("--tuning", metavar="FILE", help="Follow the measured choices of a database (warpconv tune).")
_OPERATION = click.option("--operation", metavar="NAME", default="forward", show_default=True,
                          help="What is computed of the layer: forward, data_gradient, filter_gradient, bias_gradient, "
                               "ragged.")
_ARCH = click.option("--arch", metavar="sm_90", multiple=True,
                     help=f"GPU architecture, or several: sm_80,sm_90 (default: the GPU's, or {DEFAULT_ARCH}).")


def layer_options(*, sizes: bool = True, arch: bool = True, operation: bool = False) -> Callable[[Callable], Callable]:
    """The layer's options for a command; without ``sizes`` they come from arrays. ``operation``: gradients, too."""
    options = [*(_SIZES if sizes else ()), *_GEOMETRY, _DTYPE[sizes],
               *((_WEIGHT_DTYPE, _SEPARABLE, _PITCHED) if sizes else ()), *_TYPES, *_FORM,
               *((_OPERATION,) if operation else ()), *_KERNEL,
               *((_ARCH,) if arch else ()), *((_TUNING,) if arch and sizes else ())]

    def decorate(command: Callable) -> Callable:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def templates_option(command: Callable) -> Callable:
    """``--templates``: the switch WARPCONV_TEMPLATES for this command."""
    def lay_over(ctx: click.Context, parameter: click.Parameter, folder: str | None) -> None:
        if folder is not None:
            from warpconv.runtime import env
            ctx.with_resource(env.scope(templates=folder))

    return click.option("--templates", metavar="FOLDER", expose_value=False, callback=lay_over,
                        help="Lay these templates over warpconv's own, by their names.")(command)


@dataclass(frozen=True, kw_only=True)
class LayerRequest:
    """A layer and how its kernel is wanted; ``assumed`` names those of N, H, W that the command line left open,
    ``name`` is that of a LAYERS file."""

    shape: ConvShape
    assumed: tuple[str, ...]
    epilogue: tuple[Epilogue, ...]
    algorithm: str
    settings: dict[str, str]
    arch: Arch | None
    index_bits: int | None
    tuning: Path | None = None
    numerics: Numerics = Numerics.FLOAT32
    workspace_limit: int | None = None
    name: str | None = None
    operation: Operation = Operation.FORWARD

    def table(self, arch: Arch | str) -> Tuning | None:
        """The measured choices of the file that was named, if one was. Raises InputFileError."""
        if self.tuning is None:
            return None
        from warpconv.runtime.tuning.choice import table_of_file
        try:
            return table_of_file(self.tuning, arch)
        except FileError as error:
            raise InputFileError(error.message, argument="--tuning", value=str(self.tuning), hint=error.hint) from error

    def plan(self, arch: Arch | str | None = None) -> KernelPlan:
        """The plan; for ``arch``, else the one asked for, else the default.

        Raises UnsupportedSpec or ArgumentError where there is none.
        """
        arch = arch or self.arch or DEFAULT_ARCH
        made = plan_layer(self.shape, algorithm=self.algorithm, arch=arch, tuning=self.table(arch),
                          epilogue=self.epilogue, settings=self.settings, numerics=self.numerics,
                          workspace_limit=self.workspace_limit, operation=self.operation)
        if self.index_bits is None or self.index_bits == made.spec.index_bits:
            return made
        if self.index_bits < made.spec.index_bits:
            raise ArgumentError("the layer's tensors pass 2^31 elements", argument="--index-bits",
                                value=self.index_bits, hint="64, or leave it out")
        return plan(replace(made.spec, index_bits=self.index_bits), made.settings())

    def __str__(self) -> str:
        text = str(self.shape)
        return f"{text} ({', '.join(self.assumed)} assumed)" if self.assumed else text


def read_layer(options: dict[str, Any], *, shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
               dtype: DType | None = None, weight_dtype: DType | None = None, bias: bool = False,
               residual: bool = False, lists: bool = False) -> LayerRequest:
    """The options of layer_options as a request; ``shapes`` are those of arrays, in place of --input and --filter, and
    ``dtype`` their element type; ``bias`` and ``residual``: whether they are among them. ``lists``: plan values may be
    several, apart by commas.

    Raises ArgumentError, ShapeError or ArgumentTypeError for what fits no layer.
    """
    if shapes is None:
        options = as_plane(options)
    axes = len(shapes[1]) - 2 if shapes is not None else _axes(options)
    geometry = {"stride": _along(options["stride"], "--stride", axes), "padding": _padding(options["padding"], axes),
                "dilation": _along(options["dilation"], "--dilation", axes),
                "groups": _number(options["groups"], "--groups"),
                "dtype": dtype or read_dtype(options["dtype"]), "layout": _layout(options["layout"].upper(), axes),
                "padding_mode": options["padding_mode"], "padding_value": _value(options["padding_value"]),
                "weight_dtype": weight_dtype or _named(options, "weight_dtype"),
                "out_dtype": _named(options, "out_dtype"), "cast": options["cast"],
                "separable": options.get("separable", False)}
    if shapes is not None:
        shape, assumed = ConvShape.of(*shapes, **geometry), ()
    else:
        shape, assumed = _shape(options, geometry)
        shape = shape.with_distances() if options["pitched"] else shape
    steps = [Epilogue.parse(text) for text in split_steps(options["epilogue"])]
    activation = options["activation"]
    if activation is not None and Epilogue.parse(activation, "activation") in steps:
        raise ArgumentError("--epilogue and --activation name the same step", argument="--activation",
                            value=activation, hint="leave one of them out")
    steps = parse_epilogue(steps, bias=bias, activation=activation, takes_bias=shapes is None,
                           residual=None if shapes is None else residual)
    return LayerRequest(shape=shape, assumed=assumed, epilogue=steps, algorithm=options["algorithm"],
                        settings=read_settings(options["sets"], lists=lists),
                        workspace_limit=_limit(options["workspace_limit"]),
                        index_bits=_index_bits(options["index_bits"]),
                        operation=Operation.parse(options.get("operation", Operation.FORWARD)),
                        numerics=Numerics.of(_SHORT.get(options["accumulate"], options["accumulate"]),
                                             options["precision"]),
                        tuning=Path(tuning) if (tuning := options.get("tuning")) is not None else None,
                        arch=_one_arch(options.get("arch", ())))


def read_dtype(text: str, argument: str = "dtype") -> DType:
    """An element type by its name. Raises ArgumentError for one that there is not."""
    return DType.parse(_SHORT.get(text, text), argument)


def _named(options: dict[str, Any], name: str) -> DType | None:
    return None if options.get(name) is None else read_dtype(options[name], name)


def _value(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentError("this is no number", argument="--padding-value", value=text,
                            hint="for instance 0.5") from None


def read_archs(texts: tuple[str, ...]) -> tuple[Arch, ...]:
    """Those of ``--arch``, each once: it may be given several times, and takes lists."""
    words = [word.strip() for text in texts for word in text.split(",")]
    return tuple(dict.fromkeys(Arch.parse(word, "--arch") for word in words))


def _one_arch(texts: tuple[str, ...]) -> Arch | None:
    archs = read_archs(texts)
    if len(archs) > 1:
        raise ArgumentError("one architecture at a time here", argument="--arch", value=", ".join(map(str, archs)),
                            hint="emit, inspect, explain and build take several")
    return archs[0] if archs else None


def _axes(options: dict[str, Any]) -> int:
    """Spatial axes of --input and --filter: two, or three of volumes. Raises ArgumentError."""
    for option, key, form in (("--input", "input_", "1,3,224,224"), ("--filter", "filter_", "64,3,3")):
        if options[key] is None:
            raise ArgumentError(f"{option} is missing", argument=option, hint=f"for instance {option} {form}")
    axes = 3 if options["input_"].count(",") == 4 else 2
    form = ("K,T,R,S beside an input N,C,D,H,W, K,R,S beside N,C,H,W" if axes == 3 else
            "K,R,S beside an input N,C,H,W, K,T,R,S beside N,C,D,H,W, K,S beside N,C,L")
    numbers = _numbers(options["filter_"], "--filter", (axes + 1, axes + 2), form)
    if len(numbers) == axes + 2:        # PyTorch's sizes
        k, _, *taps = map(str, numbers)
        raise ArgumentError("this is a number too many", argument="--filter", value=options["filter_"],
                            hint=f"{form}; without the channels, which are --input's, {','.join((k, *taps))}")
    return axes


def _shape(options: dict[str, Any], geometry: dict[str, Any]) -> tuple[ConvShape, tuple[str, ...]]:
    k, *taps = _numbers(options["filter_"], "--filter", (3, 4), "")
    words = [word.strip() for word in options["input_"].split(",")]
    volume = len(taps) == 3
    axes = "".join(geometry["layout"].stored(tuple("NCDHW" if volume else "NCHW")))
    letters = {place: axis for place, axis in enumerate(axes) if axis != "C"}      # places that may hold a letter
    assumed = tuple(word for place, word in enumerate(words) if letters.get(place) == word)
    least = {"N": 1, **{axis: apart * (span - 1) + 1 for axis, apart, span in zip(
        "DHW"[-len(taps):], geometry["dilation"], taps)}}
    words = [str(max(ASSUMED[word], least[word])) if letters.get(place) == word else word
             for place, word in enumerate(words)]
    example, open_ = (",".join(map(str, geometry["layout"].stored(sizes))) for sizes in (
        ((1, 1, 64, 128, 128), ("N", 1, "D", "H", "W")) if volume else ((1, 3, 224, 224), ("N", 3, "H", "W"))))
    form = f"{','.join(axes)}: C is a number; the others are numbers or their letters: {example} or {open_}"
    sizes = _numbers(",".join(words), "--input", (len(axes),), form, typed=options["input_"])
    n, c, *image = geometry["layout"].logical(sizes)
    depth = {"d": image[0], "t": taps[0]} if volume else {}
    shape = ConvShape(n=n, c=c, h=image[-2], w=image[-1], k=k, r=taps[-2], s=taps[-1], **depth, **geometry)
    if options["index_bits"] == "32":       # letters stand for sizes for which that is enough
        for axis in (axis for axis in "DHW" if axis in assumed):
            while index_bits(shape) != 32 and (side := getattr(shape, axis.lower()) // 2) >= least[axis]:
                shape = replace(shape, **{axis.lower(): side})
    return shape, assumed


def _layout(text: str, axes: int) -> Layout:
    """An order of axes; of volumes also by its name with the depth."""
    return Layout.parse({"NCDHW": "NCHW", "NDHWC": "NHWC"}.get(text, text) if axes == 3 else text)


def _padding(text: str, axes: int) -> Any:
    if text in ("same", "valid"):
        return text
    numbers = _numbers(text, "--padding", (1, axes, 2 * axes),
                       "A or A,B (vertical, horizontal) or T,B,L,R or same or valid" if axes == 2 else
                       "A or A,B,C (depth, vertical, horizontal) or F,B,T,B,L,R or same or valid")
    if len(numbers) == 2 * axes:
        return tuple(zip(numbers[::2], numbers[1::2]))
    return numbers[0] if len(numbers) == 1 else numbers


def _along(text: str, option: str, axes: int) -> tuple[int, ...]:
    numbers = _numbers(text, option, (1, axes), "A or A,B (vertical, horizontal)" if axes == 2 else
                       "A or A,B,C (depth, vertical, horizontal)")
    return numbers if len(numbers) == axes else numbers * axes


def _number(text: str, option: str) -> int:
    return _numbers(text, option, (1,), "a whole number")[0]


def _numbers(text: str, option: str, counts: tuple[int, ...], form: str,
             typed: str | None = None) -> tuple[int, ...]:
    try:
        numbers = tuple(int(word) for word in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) not in counts:
        raise ArgumentError("these are not the numbers that belong here", argument=option, value=typed or text,
                            hint=form)
    return numbers


def read_settings(sets: tuple[str, ...], *, lists: bool = True) -> dict[str, str]:
    """The plan values of ``--set``. Raises ArgumentError, without ``lists`` also for several values of one."""
    settings = {}
    for text in sets:
        name, sign, value = text.partition("=")
        if not sign or not name.strip() or not value.strip():
            raise ArgumentError("a plan value is written NAME=VALUE", argument="--set", value=text,
                                hint="for instance --set edges=predicated; inspect lists them")
        if name.strip() in settings:
            raise ArgumentError("this plan value is set twice", argument="--set", value=text, hint="set it once")
        if not lists and "," in value:
            raise ArgumentError("one value of each plan value here", argument="--set", value=text,
                                hint="warpconv inspect, with the same options, shows several side by side")
        settings[name.strip()] = value.strip()
    return settings


def _limit(text: str | None) -> int | None:
    """The option, or the environment's limit."""
    from warpconv.runtime import env
    if text is None:
        return env.settings().workspace_limit
    try:
        return env.parse_bytes(text)
    except ValueError as error:
        raise ArgumentError("this is no amount of memory", argument="--workspace-limit", value=text,
                            hint=str(error)) from None


def _index_bits(text: str | None) -> int | None:
    if text is not None and text not in ("32", "64"):
        raise ArgumentError("no such width", argument="--index-bits", value=text, hint="32 or 64")
    return None if text is None else int(text)
