"""The layers of the study memory_wall and what each must reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from warpconv.codegen.shape import ConvShape

DEPTHWISE = ((32, 128, 112), (128, 96, 56), (128, 384, 14), (64, 768, 7))
FORMATS = tuple((dtype, layout) for dtype in ("float32", "float16", "bfloat16") for layout in ("NCHW", "NHWC"))
LARGE_BYTES = 64e6          # depthwise layers that move more have a floor to meet
LAUNCH_SLACK, LAUNCH_AIM = 1.3, 1.1     # small planes: times (an empty kernel's launch + a copy), at most
GEOMETRIC_MEAN, GEOMETRIC_AIM = 4.0, 6.0    # of the depthwise layers' speedups over cuDNN


@dataclass(frozen=True)
class Target:
    """What rows must reach: field ``field`` is to be at least ``must``, better ``aim`` (None: no more than must)."""

    name: str
    field: str
    must: float
    aim: float | None


@dataclass(frozen=True)
class WallLayer:
    """One layer: ``group`` is its line of targets; an ``extra`` is measured but has no target."""

    group: str
    shape: ConvShape
    extra: bool = False

    @property
    def key(self) -> str:
        s = self.shape
        return f"{self.group}/{s.n}x{s.c}x{s.h}/{s.r}x{s.s}/{s.dtype.value}/{s.layout.value}"

    def must(self, bound: str) -> tuple[str, float] | None:
        """The field and the least value that the layer must reach; ``bound``: which part of the floor is larger."""
        taps, half = self.shape.r, self.shape.dtype.itemsize == 2
        if self.extra:
            return None
        if self.group == "planes":
            if half:
                return ("of_copy", 0.85) if taps == 3 else ("of_floor", 0.70)
            return ("of_copy", 0.90) if taps <= 5 else ("of_floor", 0.72)
        if self.group == "large filters":
            return "of_floor", 0.60
        if self.group == "depthwise" and self.moved > LARGE_BYTES:
            return "of_floor", 0.80 if bound == "copy" else 0.65
        if self.group == "small planes":
            return "of_launch_and_copy", 1 / LAUNCH_SLACK
        return None

    def targets(self, bound: str) -> tuple[Target, ...]:
        """Everything that the layer must reach, by ``must`` and ``least_speedups``."""
        found = []
        least = self.must(bound)
        if least is not None:
            words = {"of_copy": "of copy", "of_floor": "of the floor",
                     "of_launch_and_copy": "launch + copy over time"}[least[0]]
            found.append(Target(f"{self._line(bound)}: {words}", *least, self._aim))
        for peer, times in self.least_speedups.items():
            filters = f" {self.shape.r}x{self.shape.r}" if self.group == "planes" else ""
            found.append(Target(f"{self.group}{filters}: times {peer}'s speed", f"{peer}_speedup", times, None))
        return tuple(found)

    @property
    def _aim(self) -> float:
        if self.group == "planes":
            return {(3, 4): 0.95, (5, 4): 0.95, (3, 2): 0.92}.get((self.shape.r, self.shape.dtype.itemsize), 0.90)
        return {"depthwise": 0.90, "large filters": 0.85, "small planes": 1 / LAUNCH_AIM}[self.group]

    def _line(self, bound: str) -> str:
        """The layers that share a target, in words."""
        if self.group == "depthwise":
            return f"depthwise that move more than {LARGE_BYTES / 1e6:.0f} MB, bound by {bound}"
        if self.group == "planes":
            half = self.shape.dtype.itemsize == 2
            first, rest = ("3x3", "5x5 to 11x11") if half else ("3x3 and 5x5", "7x7 to 11x11")
            return f"planes {self.shape.dtype.value} {first if self.shape.r <= (3 if half else 5) else rest}"
        return self.group

    @property
    def quick(self) -> bool:
        """Whether the layer is of the reduced set."""
        s = self.shape
        if self.group == "planes":
            return s.h == 8192 and (s.r <= 7 if s.dtype.itemsize == 4 else s.r == 5)
        if self.group == "depthwise":
            return not self.extra and s.r != 5 and s.h in (112, 14) and s.dtype.value != "bfloat16"
        return s.r == 21 and not self.extra if self.group == "large filters" else s.h == 256

    @property
    def trial(self) -> ConvShape:
        """A layer of its kind that a host computes in no time."""
        s = self.shape
        size = {8192: 40, 4096: 33, 512: 24, 256: 17}.get(s.h, min(s.h, 14))
        channels = min(s.c, 8)
        return replace(s, n=min(s.n, 3), c=channels, k=channels, groups=channels, h=size, w=size)

    @property
    def name(self) -> str:
        """The layer in a table of its group."""
        s = self.shape
        images = "" if s.n == s.c == 1 else f"{s.n}x{s.c}x"
        kind = "" if self.group.endswith("planes") else f", {s.dtype.value} {s.layout.value}"
        return f"{images}{s.h}^2, {s.r}x{s.s}{kind}"

    @property
    def least_speedups(self) -> dict[str, float]:
        """How many times a peer's speed the layer must reach."""
        if self.extra:
            return {}
        if self.group == "planes":
            npp = {3: 1.25, 5: 1.7, 7: 7.0, 9: 5.0, 11: 5.0}[self.shape.r]
            return {"NPP": npp} if self.shape.dtype.itemsize == 4 else {}
        if self.group == "small planes":
            return {"NPP": 1.0, "cuDNN": 1.0, "CuPy": 1.0}
        return {"cuDNN": 3.0 if self.group == "large filters" else 1.0}

    @property
    def moved(self) -> int:
        """Bytes of the input read once and the output written once."""
        s = self.shape
        return s.dtype.itemsize * s.n * (s.c * s.h * s.w + s.k * s.p * s.q)


def layers() -> Iterator[WallLayer]:
    """Every layer of the study."""
    for dtype in ("float32", "float16", "bfloat16"):
        for size in (4096, 8192):
            for taps in (3, 5, 7, 9, 11):
                yield WallLayer("planes", _shape(1, 1, size, taps, dtype))
    for n, c, size in DEPTHWISE:
        for taps in (3, 5, 7):
            for dtype, layout in FORMATS:
                yield WallLayer("depthwise", _shape(n, c, size, taps, dtype, layout), (dtype, layout) == FORMATS[1])
    for taps in (13, 21, 31):
        for dtype, layout in FORMATS[:4]:
            yield WallLayer("large filters", _shape(32, 128, 56, taps, dtype, layout), layout == "NHWC")
    for size in (256, 512):
        for taps in (3, 5):
            yield WallLayer("small planes", _shape(1, 1, size, taps, "float32"))


def _shape(n: int, c: int, size: int, taps: int, dtype: str, layout: str = "NCHW") -> ConvShape:
    return ConvShape(n=n, c=c, h=size, w=size, k=c, r=taps, s=taps, groups=c, padding="same", dtype=dtype,
                     layout=layout)
