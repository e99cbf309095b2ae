"""A node's attributes and its arrays' sizes as a ConvShape: pads, auto_pad, groups, dilations, one to three spatial
axes, transposed layers as the layer whose data gradient they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import WarpconvError
from warpconv.codegen.shape import ConvShape

from .graph import Graph, LeftOutError, Node

SAME = ("SAME_UPPER", "SAME_LOWER")
_WORDS = {2: "one and two", 3: "one, two and three"}


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """A layer's sizes before its types: those of the input, of the filter (as the layer's w[K, C/groups, R, S]), one
    number for each of two spatial axes, of volumes of three. ``axes``: how many the model's arrays have."""

    n: int
    c: int
    image: tuple[int, ...]
    k: int
    taps: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int
    axes: int

    def shape(self, **types: Any) -> ConvShape:
        """The layer with element types and border. Raises LeftOutError where it can be none."""
        try:
            depth = {"d": self.image[0], "t": self.taps[0]} if len(self.image) == 3 else {}
            return ConvShape(n=self.n, c=self.c, h=self.image[-2], w=self.image[-1], k=self.k, r=self.taps[-2],
                             s=self.taps[-1], stride=self.stride, padding=self.padding, dilation=self.dilation,
                             groups=self.groups, **depth, **types)
        except WarpconvError as error:
            raise LeftOutError(str(error)) from None


def forward_geometry(graph: Graph, node: Node, x: str, w: str, most: int = 2) -> Geometry:
    """Of a Conv and its kin of up to ``most`` spatial axes, by the names of input and filter. Raises LeftOutError."""
    sizes, filters, axes = _sizes(graph, node, x, w, most)
    stride, dilation, groups = _steps(node, axes)
    if filters[1] * groups != sizes[1]:
        raise LeftOutError(f"its filter has {filters[1]} channels in {groups} groups, and its input {sizes[1]}")
    if filters[0] % groups:
        raise LeftOutError(f"its {filters[0]} filters cannot be divided into {groups} groups")
    auto = auto_pad(node)
    pads = (same_pads(auto, sizes[2:], stride, filters[2:], dilation) if auto in SAME else _pads(node, axes))
    return _planar(sizes[0], sizes[1], sizes[2:], filters[0], filters[2:], stride, pads, dilation, groups, axes)


def transposed_geometry(graph: Graph, node: Node, x: str, w: str) -> Geometry:
    """Of a ConvTranspose: the layer whose output has its input's sizes. Raises LeftOutError."""
    sizes, filters, axes = _sizes(graph, node, x, w, 3)
    stride, dilation, groups = _steps(node, axes)
    if filters[0] != sizes[1]:
        raise LeftOutError(f"its filter is for {filters[0]} channels, and its input has {sizes[1]}")
    extra = _numbers(node, "output_padding", axes, 0)
    spans = [step * (taps - 1) + 1 for taps, step in zip(filters[2:], dilation)]
    full = [(size - 1) * step + span + more for size, step, span, more in zip(sizes[2:], stride, spans, extra)]
    wanted = node.attributes.get("output_shape")
    if wanted:
        target = list(wanted)[-axes:]
    elif auto_pad(node).startswith("SAME"):
        target = [size * step for size, step in zip(sizes[2:], stride)]
    else:
        target = None
    if target is not None:
        totals = [most - size for most, size in zip(full, target)]
        if min(totals) < 0:
            raise LeftOutError(f"its output_shape {target} is larger than its input and filter make")
        first = [total - total // 2 for total in totals] if auto_pad(node) != "SAME_UPPER" else [t // 2 for t in totals]
        pads = [(before, total - before) for before, total in zip(first, totals)]
    else:
        pads = _pads(node, axes)
    image = [most - before - after for most, (before, after) in zip(full, pads)]
    # rows at the output's end that no product reaches: the layer's padding there is less by as many
    pads = [(before, after if more < step else after - more)
            for (before, after), more, step in zip(pads, extra, stride)]
    if any(after < 0 for _, after in pads):
        raise LeftOutError(f"its output_padding {list(extra)} is neither less than its stride nor within its padding")
    if min(image) < 1:
        raise LeftOutError(f"its output would be empty: {image}")
    return _planar(sizes[0], filters[1] * groups, image, filters[0], filters[2:], stride, pads, dilation, groups, axes)


def check_sizes(graph: Graph, name: str, what: str, *allowed: tuple[int, ...]) -> None:
    """Raises LeftOutError for a value beside the filter (if there is one) that is known to have other sizes."""
    sizes = graph.constants.shape(name) or graph.value(name).sizes
    if name and sizes is not None and sizes not in allowed:
        raise LeftOutError(f"its {what} has sizes {list(sizes)}, not {list(allowed[-1])}")


def _planar(n: int, c: int, image: Sequence[int], k: int, taps: Sequence[int], stride: Sequence[int],
            pads: Sequence[tuple[int, int]], dilation: Sequence[int], groups: int, axes: int) -> Geometry:
    """With a first axis of one row where there is only one."""
    more = max(0, 2 - axes)

    def pair(values: Sequence[Any], filled: Any) -> Any:
        return (filled,) * more + tuple(values)

    return Geometry(n=n, c=c, image=pair(image, 1), k=k, taps=pair(taps, 1), stride=pair(stride, 1),
                    padding=pair(pads, (0, 0)), dilation=pair(dilation, 1), groups=groups, axes=axes)


def _sizes(graph: Graph, node: Node, x: str, w: str, most: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Sizes of input and filter, and the number of spatial axes. Raises LeftOutError."""
    filters = graph.constants.shape(w) or graph.value(w).sizes
    if filters is None:
        raise LeftOutError(f"the sizes of its filter {w!r} are not known", open_sizes=True)
    axes = len(filters) - 2
    if not 1 <= axes <= most:
        raise LeftOutError(f"it has {axes} spatial axes; there are kernels of a {node.op} for {_WORDS[most]}")
    given = node.attributes.get("kernel_shape")
    if given is not None and tuple(given) != filters[2:]:
        raise LeftOutError(f"its kernel_shape {list(given)} is not that of its filter, {list(filters[2:])}")
    known = graph.value(x)
    if known.sizes is None:
        raise LeftOutError(f"the sizes of its input {x!r} are not known", open_sizes=True)
    if len(known.sizes) != len(filters):
        raise LeftOutError(f"its input has {len(known.sizes)} axes, and its filter {len(filters)}")
    if min(known.sizes) < 1:
        raise LeftOutError(f"its input is empty: {list(known.sizes)}")
    return known.sizes, filters, axes


def _steps(node: Node, axes: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    groups = int(node.attributes.get("group", 1))
    if groups < 1:
        raise LeftOutError(f"it has {groups} groups")
    return _numbers(node, "strides", axes, 1), _numbers(node, "dilations", axes, 1), groups


def same_pads(auto: str, sizes: Sequence[int], stride: Sequence[int], taps: Sequence[int],
              dilation: Sequence[int]) -> list[tuple[int, int]]:
    """(before, after) for each axis by one of SAME: ceil(size / stride) outputs."""
    totals = [max(0, (-(-size // step) - 1) * step + (n - 1) * apart + 1 - size)
              for size, step, n, apart in zip(sizes, stride, taps, dilation)]
    pairs = [(total // 2, total - total // 2) for total in totals]
    return pairs if auto == "SAME_UPPER" else [(after, before) for before, after in pairs]


def _pads(node: Node, axes: int) -> list[tuple[int, int]]:
    """(before, after) for each axis where it does not follow from the sizes. Raises LeftOutError."""
    auto = auto_pad(node)
    if auto == "VALID":
        return [(0, 0)] * axes
    if auto not in ("", "NOTSET"):
        raise LeftOutError(f"its auto_pad {auto!r} is not known")
    pads = _numbers(node, "pads", 2 * axes, 0)
    if min(pads) < 0:
        raise LeftOutError(f"its pads {list(pads)} cut rows or columns off")
    return list(zip(pads[:axes], pads[axes:]))


def pads_of(node: Node, shape: ConvShape) -> str:
    """ModelLayer.pads: SAME without a stride adds as much at every size, and a transposed layer's does, too."""
    if "Transpose" in node.op:
        return "sizes" if node.attributes.get("output_shape") else ""
    auto = auto_pad(node)
    return auto if auto in SAME and max(shape.stride) > 1 else ""


def auto_pad(node: Node) -> str:
    """A node's auto_pad, empty where it has none."""
    value = node.attributes.get("auto_pad", "")
    return value.decode() if isinstance(value, bytes) else str(value)


def _numbers(node: Node, name: str, count: int, default: int) -> tuple[int, ...]:
    given = node.attributes.get(name)
    if not given:
        return (default,) * count
    if len(given) != count:
        raise LeftOutError(f"its {name} {list(given)} are not {count}")
    return tuple(int(value) for value in given)
