"""The arguments of a layer's kernel, and what a plan asks of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..border import Border
from ..classes import replace
from ..dimension import IMAGE, OUTPUTS
from ..dtypes import Layout
from ..plan import Argument, Role
from ..spec import Epilogue, KernelSpec, Numerics, Operation


BORDER = "BORDER"       # the argument that is the value outside of the image


def sizes_of(spec: KernelSpec) -> tuple[str, ...]:
    """The names of the sizes that are not baked in."""
    return ("N", *image_of(spec), *outputs_of(spec))


def image_of(spec: KernelSpec) -> tuple[str, ...]:
    """The names of the sizes of x along its spatial axes."""
    return tuple(size.value for size in IMAGE[len(spec.taps)])


def outputs_of(spec: KernelSpec) -> tuple[str, ...]:
    """The same of y."""
    return tuple(size.value for size in OUTPUTS[len(spec.taps)])


def border_arguments(spec: KernelSpec, *, as_elements: bool = False) -> tuple[Argument, ...]:
    """The value outside of the image where the border has one: a number as the arithmetic has it or, ``as_elements``,
    as the input has it, elements of less than 32 bits side by side in a word."""
    if spec.padding_mode is not Border.CONSTANT:
        return ()
    number = "int" if spec.numerics is Numerics.INT32 else "float"
    return (Argument(name=BORDER, role=Role.BORDER,
                     c_type="unsigned" if as_elements and spec.dtype.bits < 32 else number),)


def gradient_arguments(spec: KernelSpec) -> tuple[Argument, ...]:
    """The arrays that a gradient of the layer reads, the gradient that it writes (dx, dw or db, each of its array's
    type), and the sizes of the layer."""
    def array(name: str, role: Role) -> Argument:
        return Argument(name=name, role=role, c_type=spec.dtype.c_name)

    arrays = {
        Operation.DATA_GRADIENT: (array("dy", Role.INPUT), array("w", Role.WEIGHT),
                                  *([array("bias", Role.BIAS)] if Epilogue.BIAS in spec.epilogue else []),
                                  array("dx", Role.OUTPUT)),
        Operation.FILTER_GRADIENT: (array("x", Role.INPUT), array("dy", Role.GRADIENT), array("dw", Role.OUTPUT)),
        Operation.BIAS_GRADIENT: (array("dy", Role.INPUT), array("db", Role.OUTPUT))}[spec.operation]
    border = border_arguments(spec) if spec.operation is Operation.FILTER_GRADIENT else ()
    return (*arrays, *(Argument(name=name, role=Role.SIZE, c_type="int") for name in sizes_of(spec)), *border)


def layer_arguments(spec: KernelSpec, *, as_elements: bool = False) -> tuple[Argument, ...]:
    """x, w, the bias and the residual if the epilogue adds them, y, and the sizes that are not baked in, of arrays with
    gaps their distances too, and a border's value (``as_elements``: as the input has it). A residual may be y itself,
    and lies in memory as y does."""
    arguments = [Argument(name="x", role=Role.INPUT, c_type=spec.dtype.c_name),
                 Argument(name="w", role=Role.WEIGHT, c_type=spec.w_dtype.c_name)]
    if Epilogue.BIAS in spec.epilogue:
        arguments.append(Argument(name="bias", role=Role.BIAS, c_type=spec.bias_dtype.c_name))
    residual = Epilogue.RESIDUAL in spec.epilogue
    if residual:
        arguments.append(Argument(name="residual", role=Role.RESIDUAL, c_type=spec.y_dtype.c_name, alone=False))
    arguments.append(Argument(name="y", role=Role.OUTPUT, c_type=spec.y_dtype.c_name, alone=not residual))
    sizes = [Argument(name=name, role=Role.SIZE, c_type="int") for name in sizes_of(spec)]
    if spec.pitched:        # 0 where there is nothing further
        sizes += [Argument(name=name, role=Role.SIZE, c_type="int", at_least=0) for name in distances(spec)]
    return (*arguments, *sizes, *border_arguments(spec, as_elements=as_elements))


def distances(spec: KernelSpec) -> tuple[str, ...]:
    """The names of the distances of x and y that a layout has: the channels of NHWC lie side by side."""
    apart = ("ROW", "PLANE", "IMAGE") if spec.layout is Layout.NCHW else ("ROW", "IMAGE")
    return tuple(f"{array}_{distance}" for array in "XY" for distance in apart)


def distance_demands(spec: KernelSpec, vector: int, store_vector: int) -> dict[str, dict[str, int]]:
    """What vectors ask of the distances: rows, planes and images begin at a multiple of them."""
    return {name: {"multiple_of": vector if name.startswith("X") else store_vector} for name in distances(spec)}


def demanding(arguments: Iterable[Argument], demands: Mapping[str, int]) -> tuple[Argument, ...]:
    """The arguments, those that ``demands`` names as multiples of so much: sizes in elements, addresses in bytes."""
    return tuple(replace(a, multiple_of=demands.get(a.name, 1)) for a in arguments)


def bounded(arguments: Iterable[Argument], bounds: Mapping[str, int]) -> tuple[Argument, ...]:
    """The arguments, those sizes that ``bounds`` names at most so large."""
    return tuple(replace(a, at_most=bounds[a.name]) if a.name in bounds else a for a in arguments)


def named(arguments: Iterable[Argument], *names: str) -> tuple[Argument, ...]:
    """Those of ``arguments`` that have these names, in the names' order; a name that none has (the bias of a layer
    without one) is passed over."""
    by_name = {argument.name: argument for argument in arguments}
    return tuple(by_name[name] for name in names if name in by_name)
