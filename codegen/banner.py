"""The head of every emitted source: what it is, the command that emits it again, the layer, the plan, its cost."""

from __future__ import annotations

import itertools
import re
import shlex
import textwrap
from collections.abc import Iterator

from .border import Border
from .dtypes import Cast, DType, Layout
from .layer import padding_text
from .numerics import Numerics, Precision
from .options import idle
from .plan import KernelPlan, in_words
from .spec import KernelSpec, Operation, index_bits
from .templates import Overlay
from .version import VERSION


_COUNTS = {2: "two", 4: "four"}
LONGEST = 117           # characters of a line, without the slashes
ASSUMED_SIDE = 512      # what the letters H and W stand for on a command line (more where the filter spans more)


def banner_lines(plan: KernelPlan, overlay: Overlay | None = None) -> list[str]:
    """Comment lines without the slashes; no date, path or host, so that equal plans give equal bytes."""
    spec = plan.spec
    template = " and ".join(f"templates/{name}" for name in plan.templates)
    lines = _wrapped(f"warpconv {VERSION}: {spec.algorithm}, {spec.dtype.value}. Generated from {template}; do not "
                     "edit.")
    if overlay is not None:
        lines.append(f"Templates of digest {overlay.digest} were laid over warpconv's own.")
    lines += ["Emit it again with", *_folded(emit_command(plan) + overlay_flags(overlay))]
    lines += ["", *_wrapped(f"layer  {spec.layer}"), *_sizes(plan), *_wrapped(f"plan   {plan.phrase}"),
              *_wrapped(f"cost   {plan.cost}")]
    return lines + [line for note in plan.notes for line in _wrapped(f"note   {note}")]


def _wrapped(text: str) -> list[str]:
    """A line of the head over several, those after the first under its text."""
    return textwrap.wrap(text, LONGEST, subsequent_indent=" " * 7, break_long_words=False, break_on_hyphens=False)


def _sizes(plan: KernelPlan) -> list[str]:
    """The arguments that a kernel has besides arrays."""
    border = plan.program.border
    value = ""
    if border is not None:
        elements = f": {_COUNTS[plan.spec.dtype.lanes]} elements" if border.c_type == "unsigned" else ""
        value = f"{border.name} (what stands outside of the image{elements})"
    if plan.spec.operation is Operation.RAGGED:
        also = f"; {value} is an argument" if value else ""
        return _wrapped(f"       sizes and places of the planes stand in a table{also}; all else is in the text")
    names = ["N, D, H, W (and so Z, P, Q)" if plan.spec.is_volume else "N, H, W (and so P, Q)"]
    if plan.spec.pitched:
        apart = "rows, planes and images" if plan.spec.layout is Layout.NCHW else "rows and images"
        names.append(f"how far {apart} lie apart")
    if value:
        names.append(value)
    return _wrapped(f"       {', '.join(names[:-1])}{' and ' * (len(names) > 1)}{names[-1]} are arguments"
                    f"{_demands(plan)}; all else is a constant of the text")


def _demands(plan: KernelPlan) -> str:
    asked = (in_words(a for a in plan.program.arguments if not a.is_pointer), *plan.program.size_demands)
    sizes = "; ".join(filter(None, asked))
    return f" ({sizes})" if sizes else ""


def _folded(command: str) -> list[str]:
    """The command as a shell takes it over several lines: broken before ``--set``, and before an option where the layer
    alone is a long line, each line but the last going on."""
    layer, *sets = command.split(" --set ")
    first, *others = textwrap.wrap(re.sub(r"(--\S+) (?!--)", "\\1\0", layer), LONGEST - 8, break_long_words=False,
                                   break_on_hyphens=False)
    words = [f"--set\0{value}" for value in sets]          # a NUL keeps option and value on one line
    lines = textwrap.wrap(" ".join(words), 108, break_long_words=False, break_on_hyphens=False)
    lines = [f"  {first}", *(f"    {line}" for line in (*others, *lines))]
    return [line.replace("\0", " ") + " \\" for line in lines[:-1]] + [lines[-1].replace("\0", " ")]


def emit_command(plan: KernelPlan, verb: str = "emit") -> str:
    """The command line that gives this plan; N, H, W stand for any sizes."""
    return f"warpconv {verb} {layer_flags(plan)} --arch {plan.spec.arch}{setting_flags(plan)}"


def overlay_flags(overlay: Overlay | None) -> str:
    """What a command needs besides a plan's options, where templates were laid over; FOLDER stands for theirs."""
    return "" if overlay is None else " --templates FOLDER"


def layer_flags(plan: KernelPlan) -> str:
    """The plan's layer as command-line options."""
    spec = plan.spec
    image = [_side(plan, name) for name in "DHW"[-len(spec.taps):]]
    sizes = ",".join(map(str, spec.layout.stored(("N", spec.c, *image))))
    flags = [f"--input {sizes} --filter {','.join(map(str, (spec.k, *spec.taps)))}"]
    if set(spec.stride) != {1}:
        flags.append(f"--stride {','.join(map(str, spec.stride))}")
    if any(map(any, spec.padding)):
        flags.append(f"--padding {padding_text(spec.padding)}")
    if spec.padding_mode is not Border.ZEROS:
        flags.append(f"--padding-mode {spec.padding_mode.value}")
    if spec.padding_mode is Border.CONSTANT:        # any value of its kind
        flags.append(f"--padding-value {spec.border_example:.9g}")
    if set(spec.dilation) != {1}:
        flags.append(f"--dilation {','.join(map(str, spec.dilation))}")
    if spec.groups != 1:
        flags.append(f"--groups {spec.groups}")
    if spec.dtype is not DType.FLOAT32:
        flags.append(f"--dtype {spec.dtype.value}")
    if spec.weight_dtype is not None:
        flags.append(f"--weight-dtype {spec.weight_dtype.value}")
    if spec.out_dtype is not None:
        flags.append(f"--out-dtype {spec.out_dtype.value}")
    if spec.cast is not Cast.NEAREST:
        flags.append(f"--cast {spec.cast.value}")
    if spec.layout is not Layout.NCHW:
        flags.append(f"--layout {spec.layout.value}")
    if spec.numerics is Numerics.FLOAT16:
        flags.append(f"--accumulate {spec.numerics.value}")
    if spec.numerics.precision is not Precision.FLOAT32:
        flags.append(f"--precision {spec.numerics.precision.value}")
    if spec.operation is not Operation.FORWARD:
        flags.append(f"--operation {spec.operation.value}")
    if spec.epilogue:
        flags.append(f"--epilogue {shlex.quote(','.join(step.value for step in spec.epilogue))}")
    if spec.separable:
        flags.append("--separable")
    if spec.pitched:
        flags.append("--pitched")
    if spec.index_bits != 32 or _assumed_bits(plan, image) != 32:
        flags.append(f"--index-bits {spec.index_bits}")
    return " ".join(flags)


def setting_flags(plan: KernelPlan) -> str:
    """``--algorithm`` and a ``--set`` for every plan value that means something beside the others, so that the command
    does not lean on defaults."""
    unused = idle(plan.options)
    sets = "".join(f" --set {name}={value}" for name, value in plan.settings().items() if name not in unused)
    return f" --algorithm {plan.spec.algorithm}{sets}"


def _assumed_bits(plan: KernelPlan, image: list[str | int]) -> int:
    """The width of offsets that the command's sizes ask for, with what its letters stand for."""
    sides = [max(ASSUMED_SIDE, extent) if isinstance(side, str) else side
             for side, extent in zip(image, plan.spec.extents)]
    d, h, w = [1] * (3 - len(sides)) + sides        # images have no depth
    return index_bits(plan.spec.example_shape(d=d, h=h, w=w))


def _side(plan: KernelPlan, name: str) -> str | int:
    """H or W for --input: the letter, or a number where the plan asks for another size than a letter stands for."""
    if plan.spec.operation is Operation.RAGGED:     # each plane has its own
        return name
    inputs, outputs = (plan.program.argument(size) for size in (name, {"D": "Z", "H": "P", "W": "Q"}[name]))
    if not inputs.demand and not outputs.demand:
        return name
    letter, *others = _sides(plan.spec, name)
    for size, made in (letter, *others):
        if inputs.admits(size) and outputs.admits(made):
            return name if (size, made) == letter else size
    return name


def _sides(spec: KernelSpec, name: str) -> Iterator[tuple[int, int]]:
    """Sizes of the input and the output along H or W: what the letter stands for, then larger and smaller ones."""
    axis = "DHW"[-len(spec.taps):].index(name)
    usual = [max(ASSUMED_SIDE, extent) for extent in spec.extents]
    for size in itertools.chain(range(usual[axis], usual[axis] + 64), range(usual[axis] - 1, 0, -1)):
        image = [*usual[:axis], size, *usual[axis + 1:]]
        made = spec.outputs_of(image)[axis]
        if made < 1:
            return
        yield size, made
