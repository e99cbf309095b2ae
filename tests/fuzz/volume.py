"""Calls of conv3d and its gradients on drawn volumes, against float64."""

from __future__ import annotations

from warpconv.codegen.registry import serving
from warpconv.codegen.spec import Operation

from .. import drawn
from ..axes import Choose
from . import spatial
from .spatial import Layer
from .world import World

OPERATIONS = {"conv3d_input": Operation.DATA_GRADIENT, "conv3d_weight": Operation.FILTER_GRADIENT}
ALWAYS = {"conv3d": ("auto", "volume"), "conv3d_input": ("auto", "volume_data"),
          "conv3d_weight": ("auto", "volume_filter")}       # that serve any layer
EPILOGUES = drawn.EPILOGUES + drawn.MORE_EPILOGUES + drawn.RESIDUALS


def values(choose: Choose, world: World) -> str:
    """A layer or one of its gradients, at several sizes, on arrays placed in several ways."""
    name = choose(("conv3d", "conv3d", *OPERATIONS))
    forward = name == "conv3d"
    steps = choose(EPILOGUES) if forward else ()
    fields = spatial.fields_of(choose, 3, spatial.types(forward))
    named = [row.name for row in serving(OPERATIONS.get(name, Operation.FORWARD), 3)]
    algorithm = choose(("auto", "auto", *named))
    more, may_refuse = {"algorithm": algorithm}, algorithm not in ALWAYS[name]

    def call(layer: Layer) -> str:
        if forward:
            return spatial.forward(choose, world, layer, steps, name, more, may_refuse=may_refuse)
        return spatial.gradient(choose, world, layer, name, more, may_refuse=may_refuse)

    return spatial.several(choose, world, 3, fields, forward, call)
