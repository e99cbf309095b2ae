"""The rows of the study images, in batches that share their data, and what each row must reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from warpconv.codegen.border import Border
from warpconv.codegen.shape import ConvShape

BORDERS = tuple(Border)             # the first, zeros, is what the others are held against
BORDER_VALUE = 0.5                  # of "constant"
PLANES, FILTERS = (4096, 8192), (3, 5, 7, 9, 11)
DEPTHWISE = (56, 112)
PIXEL_PLANE, PIXEL_FILTERS = 8192, (3, 5, 7)
# name: the layer's types
PIXELS: Mapping[str, Mapping[str, str]] = {
    "uint8, float weights": {"dtype": "uint8"}, "uint8, int8 weights": {"dtype": "uint8", "weight_dtype": "int8"},
    "uint8 to float32": {"dtype": "uint8", "out_dtype": "float32"}, "uint16, float weights": {"dtype": "uint16"}}
SEVERAL, SEVERAL_FILTERS = (2, 4, 8), (3, 5)                   # filters over one image, of a type and size
SEVERAL_PLANES: Mapping[str, int] = {"float32": 4096, "uint8": 8192}
GAUSS_PLANE, SIGMAS, TRUNCATE = 4096, (1.0, 2.0, 4.0), 4.0
# radius: the sigma of NPP's Gaussian of that size, as near as ours needs it (its time does not depend on it)
NPP_GAUSSIANS = {1: 0.85, 2: 1.1, 3: 1.4}
# each against the first, none; a step is one as users write it
STEPS = ((), ("bias",), ("relu",), ("relu6",), ("silu",), ("gelu",), ("gelu_tanh",), ("hardswish",),
         ("clamp(-0.5,0.5)",), ("residual",), ("expr(v * sigmoid(v) + 1)",), ("bias", "relu"),
         ("bias", "residual", "relu"))
QUANTIZE = ("quantize(0.05,3)",)    # float32 to uint8: fewer bytes than none
QUICK_BORDERS = (Border.ZEROS, Border.REFLECT, Border.CIRCULAR)


@dataclass(frozen=True)
class Target:
    """What ``field`` is to be at least; ``must`` or ``aim`` is None where only the other was asked for."""

    name: str
    field: str
    must: float | None
    aim: float | None


@dataclass(frozen=True)
class Row:
    """One row: a layer, the steps of its epilogue, what it must reach, and the libraries beside it."""

    name: str
    shape: ConvShape
    epilogue: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()
    peers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Batch:
    """Rows over the same input, timed in turns. ``base``: the field that holds the first row's time over a row's, the
    bytes that both move allowed for; None where the rows are compared with their libraries alone."""

    group: str
    name: str
    rows: tuple[Row, ...]
    base: str | None = None

    def key(self, row: Row) -> str:
        return f"{self.group}/{self.name}/{row.name}"


@dataclass(frozen=True)
class Gaussian:
    """A row of gaussian_filter on a float32 plane; ``radius`` is NPP's, None for scipy's own from sigma. ``size``: of
    the plane that is measured, which on the host is a smaller one than GAUSS_PLANE."""

    sigma: float
    radius: int | None
    size: int

    @property
    def name(self) -> str:
        taps = 2 * self.reach + 1
        return f"{GAUSS_PLANE}^2, sigma {self.sigma:g}" if self.radius is None else f"{GAUSS_PLANE}^2, {taps}x{taps}"

    @property
    def reach(self) -> int:
        return int(TRUNCATE * self.sigma + 0.5) if self.radius is None else self.radius

    @property
    def targets(self) -> tuple[Target, ...]:
        if self.radius is None:
            return (Target("gaussian_filter: times CuPy's speed", "CuPy_speedup", 5.0, None),
                    Target("gaussian_filter: of the floor", "of_floor", 0.70, 0.90))
        least = 1.5 if self.radius == 1 else 3.0
        taps = 2 * self.radius + 1
        return (Target(f"Gauss {taps}x{taps}: times NPP's speed", "NPP_speedup", least, None),)


def batches(quick: bool, trial: bool) -> Iterator[Batch]:
    """Every batch; ``quick``: few. ``trial``: layers of their kinds that a host computes in no time."""
    for batch in (*_borders(quick), *_pixels(quick), *_several(quick), *_epilogues(quick)):
        yield _small(batch) if trial else batch


def gaussians(quick: bool, trial: bool) -> Iterator[Gaussian]:
    size = 48 if trial else GAUSS_PLANE
    for sigma in SIGMAS[:1] if quick else SIGMAS:
        yield Gaussian(sigma, None, size)
    for radius, sigma in NPP_GAUSSIANS.items():
        if radius == 1 or not quick:
            yield Gaussian(sigma, radius, size)


def plane(size: int, taps: int, **fields: object) -> ConvShape:
    return ConvShape(c=1, h=size, w=size, k=1, r=taps, s=taps, padding="same", **fields)


def depthwise(size: int, taps: int, **fields: object) -> ConvShape:
    return ConvShape(n=32, c=128, k=128, groups=128, h=size, w=size, r=taps, s=taps, padding="same", **fields)


def _borders(quick: bool) -> Iterator[Batch]:
    layers = [(f"plane {size}^2, {taps}x{taps}", plane(size, taps)) for size in PLANES for taps in FILTERS]
    layers += [(f"depthwise 32x128x{size}^2, {taps}x{taps}", depthwise(size, taps))
               for size in DEPTHWISE for taps in (3, 5)]
    if quick:
        layers = [layer for layer in layers if layer[1].h in (PLANES[0], DEPTHWISE[0]) and layer[1].r == 3]
    for name, shape in layers:
        yield Batch("borders", name, tuple(_border(shape, mode) for mode in (QUICK_BORDERS if quick else BORDERS)),
                    "of_zeros")


def _border(shape: ConvShape, mode: Border) -> Row:
    filters = "3x3 to 11x11"
    kind = f"planes {filters}" if shape.c == 1 else "depthwise layers"
    target = Target(f"{kind}: zeros' time over any border's", "of_zeros", 0.97, 0.99)
    targets = () if mode is Border.ZEROS else (target,)
    # a library's time does not depend on the plane's size; CuPy's larger filters take milliseconds a call
    cupy = ("CuPy",) if shape.h == PLANES[0] and shape.r <= 7 else ()
    npp = ("NPP",) if mode is Border.REPLICATE and shape.c == 1 else ()         # the one border that it has
    value = BORDER_VALUE if mode is Border.CONSTANT else 0.0
    return Row(mode.value, replace(shape, padding_mode=mode, padding_value=value), targets=targets,
               peers=("cuDNN", *npp, *cupy))


def _pixels(quick: bool) -> Iterator[Batch]:
    for taps in PIXEL_FILTERS[:1] if quick else PIXEL_FILTERS:
        for name, types in PIXELS.items():
            shape = plane(PIXEL_PLANE, taps, **types)
            targets = tuple(_pixel_targets(name, taps))
            yield Batch("pixels", f"{taps}x{taps}", (Row(name, shape, targets=targets, peers=("NPP", "CuPy")),))


def _pixel_targets(name: str, taps: int) -> Iterator[Target]:
    if name == "uint8, float weights":
        if taps == 3:
            yield Target(f"{name}, 3x3: of copy", "of_copy", 0.50, None)
        yield Target(f"{name}, {taps}x{taps}: times NPP's speed", "NPP_speedup", {3: 1.6, 5: 1.7, 7: 8.0}[taps], None)
    if name == "uint8, int8 weights":
        if taps == 3:
            yield Target(f"{name}, 3x3: of copy", "of_copy", None, 0.80)
        else:
            yield Target(f"{name}, {taps}x{taps}: times NPP's speed", "NPP_speedup", None, {5: 3.0, 7: 15.0}[taps])


def _several(quick: bool) -> Iterator[Batch]:
    """The copy that a row is held against moves the image once and every output: (1 + K) / 2 copies of the image."""
    for dtype, size in list(SEVERAL_PLANES.items())[:1] if quick else SEVERAL_PLANES.items():
        for taps in SEVERAL_FILTERS[:1] if quick else SEVERAL_FILTERS:
            for filters in SEVERAL[:1] if quick else SEVERAL:
                shape = replace(plane(size, taps, dtype=dtype), k=filters)
                kind = f"{dtype}, {taps}x{taps}"
                target = Target(f"several filters, {kind}: of (1 + K)/2 copies", "of_copy", None, 0.85)
                row = Row(f"{filters} filters", shape, targets=(target,), peers=("CuPy",))
                yield Batch("several", f"{dtype}, {size}^2, {taps}x{taps}", (row,))


def _epilogues(quick: bool) -> Iterator[Batch]:
    for name, shape in ((f"plane {PLANES[1]}^2, 3x3", plane(PLANES[1], 3)),
                        ("depthwise 32x128x112^2, 3x3", depthwise(112, 3))):
        rows = [_step(shape, steps) for steps in (STEPS[:3] if quick else STEPS)]
        if not quick:
            rows.append(_step(replace(shape, out_dtype="uint8"), QUANTIZE))
        yield Batch("epilogues", name, tuple(rows), "of_none")


def _step(shape: ConvShape, steps: tuple[str, ...]) -> Row:
    targets = (Target("epilogues: none's part of its copy over a step's", "of_none", 0.98, 1.0),) if steps else ()
    return Row(", ".join(steps) or "none", shape, steps, targets)


def _small(batch: Batch) -> Batch:
    """The same rows on layers that a host computes in no time, with the libraries named as they are."""
    return replace(batch, rows=tuple(replace(row, shape=_trial(row.shape)) for row in batch.rows))


def _trial(shape: ConvShape) -> ConvShape:
    channels, filters = min(shape.c, 4), shape.k // shape.c
    size = {8192: 40, 4096: 33}.get(shape.h, 14)
    return replace(shape, n=min(shape.n, 2), c=channels, k=channels * filters, groups=channels, h=size, w=size)
