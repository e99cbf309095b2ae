"""What covers an algorithm in the tests, and the values that several algorithms' axes have.

Adding an algorithm: tests/algorithms/<name>/axes.py with its axes (the values that shall meet in pairs), a function
that turns a row of them into plan values, one that draws plan values for a drawn layer, and what else differs from the
usual. The axes below are understood for every algorithm, and those that are left out have the layer's default:

    filter (R, S), of volumes (T, R, S) · channels (C, K, groups) · padding · padding_mode · stride · dilation · dtype ·
    weight_dtype · out_dtype · cast · layout · epilogue · numerics · pitch

Of an algorithm of another operation the same, as far as its layers have them; see ``Rows.operation``.

Types and borders are drawn for an algorithm's drawn layers as far as its axes name them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from warpconv.codegen.border import Border
from warpconv.codegen.spec import Epilogue, Operation

from . import pitches

Row = Mapping[str, Any]
Choose = Callable[[Sequence[Any]], Any]

BIAS, RELU, RESIDUAL = Epilogue.BIAS, Epilogue.RELU, Epilogue.RESIDUAL
CLAMP = Epilogue.clamp(-0.5, 1.5)
# what the emitted text has to define, and what the CPU device has to have
EXPRESSION = Epilogue.expr("where(v < 1, v * sigmoid(v), max(1, min(v, 4)) / 3) + relu(-v) - 0.5 * erf(v)")
# filter (rows, columns): every width 1..13 and 31; square, flat, tall, even
FILTERS = ((1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8), (9, 9), (2, 10), (3, 11), (1, 12), (4, 13),
           (3, 31), (1, 3), (5, 1), (9, 2), (3, 5), (5, 4), (11, 3))
# (C, K, groups)
CHANNELS = ((1, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1), (5, 2, 1), (4, 6, 2), (3, 3, 3), (2, 6, 2))
PADDINGS = ("valid", "same", ((0, 1), (2, 0)), ((3, 0), (0, 1)), "large")
EPILOGUES = ((), (BIAS,), (RELU,), (BIAS, RELU), (RELU, BIAS), (BIAS, CLAMP), (EXPRESSION,))
WITH_RESIDUAL = (*EPILOGUES, (BIAS, RESIDUAL, RELU), (RESIDUAL, CLAMP))       # where it is served
DTYPES = ("float32", "float16", "bfloat16")
LAYOUTS = ("NCHW", "NHWC")
PIXELS = ("uint8", "int8", "uint16", "int16")
WEIGHTS = (None, "int8", "int16", "int32")          # of integers; None is the usual one of the input's type
OUTPUTS = (None, "float32", "float16", "uint8", "int8", "uint16", "int16", "int32")
CASTS = ("nearest", "truncate")
BORDERS = tuple(mode.value for mode in Border)
PITCHES = pitches.KINDS                             # which arrays have gaps between their rows
DEPTH = 5                                           # of volumes
BORDER_VALUE = 3.0                                  # of "constant"; whole, so that integer arithmetic has it, too
# image sizes: those around the 32 lanes, tall and wide ones
SIZES: Mapping[str, tuple] = {
    "n": (1, 2, 3), "h": (1, 5, 31, 32, 33, 63, 64, 65, 240), "w": (1, 7, 31, 32, 33, 63, 64, 65, 200)}


DENSE_LAYER = {"n": 8, "c": 16, "h": 56, "w": 56, "k": 32, "r": 3, "s": 3, "padding": 1}
DEPTHWISE_LAYER = {"n": 8, "c": 64, "h": 56, "w": 56, "k": 64, "groups": 64, "r": 5, "s": 5, "padding": 2}


@dataclass(frozen=True)
class Rows:
    """One algorithm in the tests.

    ``values``: a row's plan values. ``draw``: plan values for a drawn layer (its fields so far, as ConvShape takes
    them); where it gives none, the planner's own. ``draw_layer``: fields over those drawn for every algorithm, which
    see ``drawn.draw_layer``. ``sizes``: images, covered in pairs; of them a kernel runs on those that its plan takes.
    ``image``: (N, H, W) that a layer (its fields) has for one that was drawn or is of a table.
    ``variants``: rows to execute with every access checked. ``operation``: what is computed of the layer; ``layer``: a
    row's layer, where that is not layer_of's; ``usual``: fields of a small layer of 3x3, of which it is asked what
    types and borders are served; ``typical``: a layer that the algorithm is for, whose default plan tests of all
    algorithms look at. ``arrays``: sums are arrays in the text, which tests of the room hold in registers.
    """

    axes: Mapping[str, tuple]
    values: Callable[[Row], dict[str, Any]]
    draw: Callable[[Choose, Row], dict[str, Any]] = lambda choose, layer: {}
    draw_layer: Callable[[Choose], dict[str, Any]] = lambda choose: {}
    sizes: Mapping[str, tuple] = field(default_factory=lambda: SIZES)
    image: Callable[[Row, tuple[int, int, int]], tuple[int, int, int]] = lambda layer, size: size
    variants: Callable[[], Iterable[Row]] = lambda: ()
    operation: str = Operation.FORWARD.value
    layer: Callable[[Row], dict[str, Any]] = lambda row: layer_of(row)
    usual: Mapping[str, Any] = field(default_factory=lambda: {"c": 8, "k": 8, "groups": 8})
    typical: Mapping[str, Any] = field(default_factory=lambda: DENSE_LAYER)
    arrays: bool = False

    @property
    def volumes(self) -> bool:
        """Whether its layers are of volumes."""
        return "d" in self.usual


OTHER_FIELDS = ("stride", "dilation", "dtype", "layout", "padding_mode", "weight_dtype", "out_dtype", "cast",
                "separable", "pitch")


def layer_of(row: Row) -> dict[str, Any]:
    """The fields of ConvShape, without sizes, that a row of any algorithm stands for."""
    (*planes, r, s), (c, k, groups) = row["filter"], row["channels"]
    layer = {"c": c, "k": k, "groups": groups, "r": r, "s": s, "padding": row.get("padding", 0)}
    layer.update({name: row[name] for name in OTHER_FIELDS if name in row})
    if row.get("padding_mode") == Border.CONSTANT.value:
        layer["padding_value"] = BORDER_VALUE
    if layer["padding"] == "same" and row.get("stride", 1) not in (1, (1, 1)):
        layer["padding"] = (r // 2, s // 2)
    if layer["padding"] == "large":            # larger than the filter: whole windows of zeros
        layer["padding"] = ((r + 1, r + 2), (s + 2, s + 1))
    if planes:      # along the depth as along the rows
        layer |= {"t": planes[0], "d": DEPTH}
        layer.update((name, (layer[name][0], *layer[name])) for name in ("stride", "dilation", "padding")
                     if isinstance(layer.get(name), tuple))
    return layer


def k_tile(choose: Choose, layer: Row) -> int:
    """A number of filters that divides those of a group."""
    return choose([t for t in (1, 2, 3, 4, 6) if layer["k"] // layer["groups"] % t == 0])
