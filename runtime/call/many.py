"""specialize_all: the kernels of a list of layers, compiled at the same time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build.parallel import as_done, workers_of
from warpconv.runtime.layers import NamedLayer

from .conv import specialize
from .kernel import Kernel

_OF_A_LAYER = ("algorithm", "epilogue", "settings", "accum_dtype", "precision")


def specialize_all(layers: Iterable[ConvShape | NamedLayer], *, workers: int | None = None,
                   progress: Callable[[int, int, Kernel], None] | None = None, **options: Any) -> list[Kernel]:
    """Plan and build the kernels of several layers at the same time, as ``specialize`` does for one.

    ``layers``: ConvShapes, or the NamedLayers of a layers file, which bring epilogue, algorithm, plan values and
    arithmetic of their own; layers that share a kernel compile it once. ``workers``: threads,
    WARPCONV_COMPILE_JOBS (else the usable CPUs) if None. ``progress(done, total, kernel)`` is called in the caller's
    thread as kernels are ready. ``options``: as specialize's, the same for all layers (``device``, ``bias``, ...).

    Returns the kernels in the order of the layers. Raises what specialize raises, for the first layer that is seen to
    fail; compilations under way are ended then. ArgumentTypeError for what is no layer, ArgumentError for ``workers``
    or options that cannot be.
    """
    if isinstance(layers, (ConvShape, NamedLayer)) or not isinstance(layers, Iterable):
        raise ArgumentTypeError("specialize_all takes a list of layers", argument="layers",
                                value=type(layers).__name__, hint="[layer], or specialize(layer)")
    layers = list(layers)
    for layer in layers:
        if not isinstance(layer, (ConvShape, NamedLayer)):
            raise ArgumentTypeError("specialize_all takes layers", argument="layers", value=type(layer).__name__,
                                    hint="a list of warpconv.ConvShape, or what a layers file has")
        twice = [name for name in _OF_A_LAYER if name in options] if isinstance(layer, NamedLayer) else []
        if twice:
            raise ArgumentError("a layer with a name brings this itself", argument=twice[0], value=options[twice[0]],
                                hint="leave it out, or give the layers' shapes")
    if "plan" in options:
        raise ArgumentError("a plan is for one layer", argument="plan", hint="specialize(shape, plan=plan)")

    def make(number: int) -> Kernel:
        layer = layers[number]
        if isinstance(layer, ConvShape):
            return specialize(layer, **options)
        return specialize(layer.shape, algorithm=layer.algorithm, epilogue=layer.epilogue,
                          settings=dict(layer.settings) or None, accum_dtype=layer.numerics.accumulator.value,
                          precision=layer.numerics.precision.value, **options)

    made: dict[int, Kernel] = {}
    with contextlib.closing(as_done(make, range(len(layers)), workers_of(workers, "workers"))) as finished:
        for number, future in finished:
            made[number] = future.result()
            if progress is not None:
                progress(len(made), len(layers), made[number])
    return [made[number] for number in range(len(layers))]
