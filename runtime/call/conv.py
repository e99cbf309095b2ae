"""conv2d and specialize: from arrays or a ConvShape to a kernel on a device, planned and built at most once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentTypeError, UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.parts.refusals import FLOATS
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.shape import INTEGER_WEIGHTS, PIXELS, ConvShape
from warpconv.codegen.spec import parse_epilogue
from warpconv.runtime import arrays, env
from warpconv.runtime.arrays import ArrayView, axes

from . import kernels, pitch, separable as factors_of, signatures
from .checks import MOST_LAYERS, Misaligned, bias_of, check_out, residual_of
from .filter import Filter
from .given import as_batch, check_plan, layer_given, token
from .kernel import Kernel
from .place import resolve_device
from .quick import Entry
from .recording import recording
from .watched import is_compiled, uncompiled, watched

_quick: dict[tuple | None, tuple[Entry, ...]] = {}     # by the call's arguments as they were given
on_clear: list[Callable[[], None]] = []         # of those who remember kernels themselves

MOST_ENTRIES = 4        # that one call's arguments may need, by what lies at odd addresses or tells no order of axes
_NO_STEPS = ()
_NOTHING: tuple[Entry, ...] = ()


def conv2d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1, *, padding_mode: str = "zeros", padding_value: float = 0.0, activation: str | None = None,
           epilogue: Iterable[Any] = (), algorithm: str = "auto", layout: Layout | str = "NCHW",
           accum_dtype: str | None = None, out_dtype: str | None = None, cast: str = "nearest", device: str = "auto",
           separable: bool | None = None, residual: Any = None, out: Any = None, stream: Any = None,
           workspace_limit: int | None = None, precision: str = "float32") -> Any:
    """2D cross-correlation as torch.nn.functional.conv2d, by a kernel specialised to the layer.

    Parameters
    ----------
    input : array, (N, C, H, W) or one image (C, H, W)
        float32, float16 or bfloat16 (by ml_dtypes in NumPy), uint8, int8, uint16 or int16: a NumPy array, PyTorch
        tensor, CuPy array, GPUArray, or anything with ``__cuda_array_interface__`` or DLPack. Arrays with gaps between
        rows, planes and images (crops, padded rows) are read and written where they are, where that is quicker than a
        copy (docs/pitch.md).
    weight : array, (K, C/groups, R, S)
        Of the input's type; for integers float32, or int8, int16 or int32: then products and sums are exact in int32.
    bias : array, (K,), optional
        Of the input's type, float32 for integers.
    stride, dilation : int or (vertical, horizontal)
        In pixels.
    padding : int, (vertical, horizontal), ((top, bottom), (left, right)), 'same' or 'valid'
        In pixels.
    groups : int
        Both C and K are divided into so many.
    padding_mode : str
        What stands in the padding: 'zeros', 'constant', 'replicate', 'reflect' (edge not repeated), 'symmetric' (edge
        repeated) or 'circular'; in each of them the image may be smaller than the padding.
    padding_value : float
        That of 'constant'.
    activation : str, optional
        Sugar for a last step of the epilogue.
    epilogue : iterable of str or Epilogue
        Steps applied to each output: 'bias', 'relu', 'clamp(0,6)', ...; docs/epilogues.md has them all.
    algorithm : str
        'auto' for the quickest by rule or by what was measured, or the name of one.
    layout : str
        The order of the axes of input and output, 'NCHW' or 'NHWC'. What order they have in memory is seen by the
        input's strides and kept: a channels_last tensor gives one, and nothing is copied.
    accum_dtype : str, optional
        The arithmetic of products and sums, 'float32' if None; 'float16' means that of 16-bit elements themselves.
    precision : str
        How exact products of float32 elements are: 'float32', the quickest that is as exact as 'ieee'; 'ieee', by
        float32 units; 'tf32x3', 'fp16x3' and 'tf32', on the tensor cores (docs/precision.md). PyTorch's switches do
        not count.
    out_dtype : str, optional
        The output's element type (and that of ``out``), the input's if None.
    cast : str
        How values become integers: 'nearest' (to even, limited to the type's range) or 'truncate' (to zero, modulo
        2^bits).
    device : str
        'auto' (where the arrays are; NumPy goes to a GPU if one is usable, else to the CPU device), 'cpu', 'cuda',
        'cuda:1'.
    separable : bool, optional
        None: a filter of one channel in host memory that is a column times a row, to a few float32 roundings, is
        computed as that where it is quicker and no algorithm is named; False: never; True: demanded.
    residual : array, optional
        Like the output, of its type; added where 'residual' stands in the epilogue, at its end (before ``activation``)
        if it does not. It may be ``out`` itself.
    out : array, optional
        Where the result goes. It may have any strides; where the kernel cannot write there, or it has another order in
        memory than the input, its library copies the result into it.
    stream : stream of input's library or int, optional
        Where the work is queued; the stream that input's library is on if None.
    workspace_limit : int, optional
        Bytes of workspace that the call may take at most, beside the reordered copy of a filter that some kernels make;
        WARPCONV_WORKSPACE_LIMIT if None, as it stands when a layer is called first.

    Returns
    -------
    array, (N, K, P, Q), or (N, P, Q, K) for 'NHWC'; for one image (K, P, Q) or (P, Q, K)
        ``out`` if given, else a new array of the input's library.

    Raises
    ------
    ShapeError, ArgumentError, ArgumentTypeError
        Sizes, values or arrays that cannot be, or do not go together.
    UnsupportedSpec
        No algorithm, or not the named one, serves the layer.
    DeviceError
        The device cannot be used. All of these come before anything is launched or written.
    """
    if not is_compiled():       # a call like one before is done without asking PyTorch whether it wants to see it
        given, alone = out, getattr(input, "ndim", 4) == 3
        library = signatures.library(input)
        if library is not None and not library.transforms() and (not alone or library.sign(input) is not None):
            x, added, y = (input, residual, out) if not alone else as_batch(input, residual=residual, out=out)
            key = _key(x, weight, bias, added, y, stride, padding, dilation, groups, padding_mode, padding_value,
                       activation, epilogue, algorithm, layout, accum_dtype, out_dtype, cast, device, separable,
                       workspace_limit, precision)
            try:
                known = _quick.get(key, _NOTHING)
            except TypeError:       # lists and other unhashable arguments
                known = _NOTHING
            for entry in known:
                done = entry.repeat(x, weight, bias, added, y, stream)
                if done is not None:
                    return done if not alone else done[0] if given is None else given
    return _unknown(input, weight, bias, stride, padding, dilation, groups, padding_mode=padding_mode,
                    padding_value=padding_value, activation=activation, epilogue=epilogue, algorithm=algorithm,
                    layout=layout, accum_dtype=accum_dtype, out_dtype=out_dtype, cast=cast, device=device,
                    separable=separable, residual=residual, out=out, stream=stream, workspace_limit=workspace_limit,
                    precision=precision)


@functools.partial(watched, name="conv2d")
def _unknown(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int, *,
             padding_mode: str, padding_value: float, activation: Any, epilogue: Any, algorithm: Any, layout: Any,
             accum_dtype: Any, out_dtype: Any, cast: Any, device: Any, separable: Any, residual: Any, out: Any,
             stream: Any, workspace_limit: Any, precision: Any) -> Any:
    """conv2d the checked way; what passes is remembered."""
    given, alone = out, getattr(input, "ndim", 4) == 3
    if alone:
        input, residual, out = as_batch(input, residual=residual, out=out)
    key = _key(input, weight, bias, residual, out, stride, padding, dilation, groups, padding_mode, padding_value,
               activation, epilogue, algorithm, layout, accum_dtype, out_dtype, cast, device, separable,
               workspace_limit, precision)
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
                "padding_mode": padding_mode, "padding_value": padding_value, "out_dtype": out_dtype, "cast": cast}
    numerics = kernels.numerics_of(accum_dtype, precision)
    kernel, result = _conv2d(input, weight, bias, geometry, activation, epilogue, algorithm, layout, numerics,
                             device, residual, out, stream, workspace_limit, separable)
    # templates laid over warpconv's are looked at in each call: they are there to be edited
    if key is not None and env.settings().templates is None and not _by_content(key[0], kernel, algorithm, separable):
        _remember(key, kernel.remembered(key[0]))
    return result if not alone else result[0] if given is None else given


def _key(x: Any, weight: Any, bias: Any, residual: Any, out: Any, stride: Any, padding: Any, dilation: Any, groups: Any,
         padding_mode: Any, padding_value: Any, activation: Any, epilogue: Any, algorithm: Any, layout: Any,
         accum_dtype: Any, out_dtype: Any, cast: Any, device: Any, separable: Any, workspace_limit: Any,
         precision: Any) -> tuple[Any, ...] | None:
    """What a call is remembered by, the signatures of its arrays first; None for one that cannot be."""
    if recording.graph is not None or (signed := signatures.sign_call(x, weight, bias, residual, out)) is None:
        return None
    if type(stride) is type(padding) is type(dilation) is type(groups) is int:
        sizes = stride, padding, dilation, groups
    else:
        sizes = token((stride, padding, dilation, groups))
    return (signed, sizes, activation, epilogue if epilogue is _NO_STEPS else token(epilogue), algorithm, layout,
            accum_dtype, device, workspace_limit if workspace_limit is None else token(workspace_limit), padding_mode,
            padding_value if type(padding_value) is float else token(padding_value), out_dtype, cast, separable,
            precision)


def _by_content(signed: tuple, kernel: Kernel, algorithm: Any, separable: Any) -> bool:
    """Whether the kernel depends on the elements of a filter in host memory, which may be separable."""
    return signed[1][3] is None and (separable or separable is None and algorithm == "auto"
                                     and (kernel.spec.separable or factors_of.eligible(kernel.spec)))


def _remember(key: tuple, entry: Entry | None) -> None:
    try:
        entries = _quick.get(key, ())
    except TypeError:       # lists and other unhashable arguments
        return
    if entry is not None and entry not in entries:
        if len(_quick) > MOST_LAYERS:
            _quick.clear()
        _quick[key] = (*entries, entry)[-MOST_ENTRIES:]


def conv2d_and_kernel(input: Any, weight: Any, *, groups: int, padding: Any, padding_mode: str, padding_value: float,
                      epilogue: Iterable[Any], algorithm: Any, layout: Any, out_dtype: str | None, cast: str,
                      device: Any, out: Any, stream: Any, bias: Any = None, stride: Any = 1, dilation: Any = 1,
                      separable: bool | None = None, residual: Any = None, accum_dtype: Any = None,
                      workspace_limit: int | None = None, precision: Any = "float32") -> tuple[Kernel, Any]:
    """conv2d for callers who remember the kernel of a call: it, and the output. Raises as conv2d does."""
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
                "padding_mode": padding_mode, "padding_value": padding_value, "out_dtype": out_dtype, "cast": cast}
    return _conv2d(input, weight, bias, geometry, None, epilogue, algorithm, layout,
                   kernels.numerics_of(accum_dtype, precision), device, residual, out, stream, workspace_limit,
                   separable)


def _conv2d(input: Any, weight: Any, bias: Any, geometry: dict[str, Any], activation: Any, epilogue: Any,
            algorithm: Any, layout: Any, numerics: Numerics, device: Any, residual: Any, out: Any, stream: Any,
            workspace_limit: Any, separable: Any) -> tuple[Kernel, Any]:
    """The kernel and its output, everything checked."""
    if isinstance(weight, Filter):
        raise ArgumentTypeError("a Filter belongs to its kernel", argument="weight",
                                hint="call the kernel that prepared it: filter.kernel(input, filter)")
    order = Layout.parse(layout)
    x = arrays.view(input, "input", dtypes=(*FLOATS, *PIXELS), ndim=4)
    w = arrays.view(weight, "weight", ndim=4,
                    dtypes=(x.dtype,) if x.dtype.is_float else (DType.FLOAT32, *INTEGER_WEIGHTS))
    if x.device != w.device:
        raise ArgumentTypeError("input and weight are not in one place: one is in host memory, or they are on two GPUs",
                                argument="weight", hint="move both to one device")
    made = x.dtype if geometry["out_dtype"] is None else DType.parse(geometry["out_dtype"], "out_dtype")
    y = None if out is None else arrays.view(out, "out", dtypes=(made,), ndim=4, writable=True)
    memory = axes.memory_order(order, x, y)
    gaps = pitch.gaps_of(order, memory, x, y, None if residual is None else arrays.view(residual, "residual", ndim=4))
    shape = layer_given(axes.stored(x, order, memory), w, memory, geometry)
    told = shape if gaps is None else layer_given(axes.stored(x, order, gaps.memory), w, gaps.memory, geometry)
    steps = parse_epilogue(epilogue, bias=bias is not None, activation=activation, residual=residual is not None)
    ask = kernels.asked(shape, resolve_device(device, x, shape), algorithm=algorithm,
                        epilogue=steps, numerics=numerics, workspace_limit=kernels.call_limit(workspace_limit))
    factors = _factors(ask, weight, w, separable)
    if factors is not None:
        weight, shape, told = factors.weight, replace(shape, separable=True), replace(told, separable=True)
        w = arrays.view(weight, "weight")
        ask = ask.of(shape)
    ask = _where_quicker(gaps, told, ask, x)
    shape, kernel = ask.request.layer, kernels.known(ask)
    if kernel is None:      # a mistake in what the kernel itself would check shall not cost a compilation
        views = {"input": x, "weight": w}
        if bias is not None:
            views["bias"] = bias_of(shape.k, shape.bias_dtype, bias, x)
        if residual is not None:
            views["residual"] = residual_of(residual, shape, order, x)
        if out is not None:
            check_out(out, shape, order, views)
        kernel = kernels.made(ask)
    kernel = kernel.for_axes(order)
    try:
        return kernel, kernel(input, weight, bias, residual=residual, out=out, stream=stream)
    except Misaligned:
        kernel = kernels.anywhere(kernel, ask).for_axes(order)
        return kernel, kernel(input, weight, bias, residual=residual, out=out, stream=stream)


def _where_quicker(gaps: pitch.Gaps | None, told: ConvShape, ask: kernels.Ask, x: ArrayView) -> kernels.Ask:
    """The layer of arrays with their gaps (``told``: in the order that they tell), or of copies without. Arrays that go
    to another device are copied on the way."""
    if gaps is None or gaps.memory is not told.layout or (x.device is None) is not (ask.device is None):
        return ask
    apart = ask.of(gaps.on(told))
    return apart if pitch.quicker(kernels.key_of(apart), apart.request.layer, ask.request.layer,
                                  lambda layer: kernels.plan_of(ask.of(layer))) else ask


def _factors(ask: kernels.Ask, weight: Any, view: ArrayView, separable: bool | None) -> factors_of.Factors | None:
    """The factors of a call's filter where it is taken as separable: demanded, or seen to be that and quicker."""
    if separable is None and ask.request.algorithm != "auto":
        return None
    found = factors_of.recognised(ask.request.layer, weight, view, separable)
    return found if found is not None and (separable or factors_of.pays(ask.request)) else None


@uncompiled
def specialize(shape: ConvShape, *, arch: Arch | str | None = None, device: str = "auto", algorithm: str = "auto",
               plan: KernelPlan | None = None, epilogue: Iterable[Any] = (), bias: bool = False,
               activation: str | None = None, settings: Mapping[str, Any] | None = None,
               layout: Layout | str | None = None, accum_dtype: str | None = None,
               workspace_limit: int | None = None, precision: str = "float32") -> Kernel:
    """Plan and build a kernel for a layer (and any other N, H, W) without launching it.

    Parameters
    ----------
    shape : ConvShape
        The layer.
    arch : Arch or str, optional
        The architecture to compile for, the device's if None.
    device : str
        'auto' (a GPU if one is usable, else the CPU device), 'cpu', 'cuda' or 'cuda:1'.
    algorithm : str
        'auto', or the name of one.
    plan : KernelPlan, optional
        Taken as it is, instead of algorithm and plan values.
    epilogue : iterable of str or Epilogue
        Steps applied to each output.
    bias : bool
        Whether the kernel takes a bias, as with 'bias' in ``epilogue``.
    activation : str, optional
        Sugar for a last step.
    settings : mapping of str to number, bool or str, optional
        Plan values over what the planner would take.
    layout : str or Layout, optional
        The order of the arrays' axes, the shape's if None; in memory they have NHWC order if either of the two is NHWC
        ('NCHW' over an NHWC shape is for channels_last tensors), or if the layer is dense, of 16 bits and of single
        pixels, whose memory is the same in both.
    accum_dtype : str, optional
        As in conv2d.
    precision : str
        As in conv2d.
    workspace_limit : int, optional
        Bytes of workspace that a call of ``shape`` may take at most, as in conv2d.

    Returns
    -------
    Kernel
        ``kernel(input, weight, bias, residual=..., out=..., stream=...)`` computes the layer.

    Raises
    ------
    UnsupportedSpec
        No algorithm, or not the named one, serves the layer.
    ArgumentError, ArgumentTypeError
        Values that cannot be, or do not go together.
    DeviceError, ToolNotFound, CompileError, KernelNotBuilt
        The device cannot be used; there is no compiler; it refuses the text; building is off, and nobody has built it.
    """
    if not isinstance(shape, ConvShape):
        raise ArgumentTypeError("specialize takes a ConvShape", argument="shape", value=type(shape).__name__,
                                hint="warpconv.ConvShape(c=..., h=..., w=..., k=..., r=..., s=...)")
    order = shape.layout if layout is None else Layout.parse(layout)
    if order is Layout.NHWC:
        shape = replace(shape, layout=order)
    target = resolve_device(device, None, shape)
    if plan is not None:
        check_plan(plan, shape, algorithm, settings, epilogue, bias, activation, accum_dtype, workspace_limit,
                   precision != "float32")
        return kernels.make(plan, target).for_border(shape.padding_value).for_axes(order)
    steps = parse_epilogue(epilogue, bias=bias, activation=activation, takes_bias=True)
    ask = kernels.asked(shape, target, arch=arch, algorithm=algorithm, epilogue=steps, settings=settings,
                        numerics=kernels.numerics_of(accum_dtype, precision),
                        workspace_limit=kernels.call_limit(workspace_limit))
    kernel = kernels.kernel_of(ask).for_axes(order)
    if not ask.request.by_rule or not factors_of.eligible(shape):
        return kernel
    return kernel.recognising(lambda: _factored(ask, order))


def _factored(ask: kernels.Ask, order: Layout, always: bool = False) -> Kernel | None:
    """The layer's kernel for separable filters, where it is quicker than whole ones, or ``always`` if there is one."""
    try:
        if not always and not factors_of.pays(ask.request):
            return None
        return kernels.kernel_of(ask.of(replace(ask.request.layer, separable=True))).for_axes(order)
    except UnsupportedSpec:
        return None


def factored(shape: ConvShape, x: ArrayView, device: str = "auto", always: bool = False,
             epilogue: tuple[str, ...] = ()) -> Kernel | None:
    """The kernel of a layer (of whole filters) for callers who have its factors: it takes them, (K, 1, 1, R + S), and
    an input with the gaps of ``x`` where that is quicker than a copy. None where the whole filter is quicker (but if
    ``always``: the caller has no use for it), or the layer has no such kernel. Raises as conv2d does."""
    gaps = pitch.gaps_of(shape.layout, shape.layout, x, None, None)

    def make() -> Kernel | None:
        ask = kernels.asked(shape, resolve_device(device, x, shape), epilogue=epilogue,
                            workspace_limit=kernels.call_limit(None))
        return _factored(_where_quicker(gaps, shape, ask, x), shape.layout, always)

    # looked for once: to plan both kernels takes longer than a launch
    return kernels.by_request.get(("factored", shape, gaps, x.device, device, always, epilogue), make)


def clear() -> None:
    """Forget the kernels kept in memory (the disk cache stays)."""
    pitch.clear()
    for forget in on_clear:
        forget()
    kernels.by_request.clear()
    _quick.clear()
    kernels.by_plan.clear()
