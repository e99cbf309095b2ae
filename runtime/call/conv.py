"""conv2d and specialize: from arrays or a ConvShape to a kernel on a device, planned and built at most once."""

from __future__ import annotations

import atexit
import functools
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Iterable, NamedTuple

from warpconv.codegen.hardware import Arch, DEFAULT_ARCH
from warpconv.codegen.parts.refusals import FLOATS
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, UnsupportedSpec
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import check_limit, plan_layer
from warpconv.codegen.shape import INTEGER_WEIGHTS, PIXELS, ConvShape
from warpconv.codegen.spec import Epilogue, Numerics, index_bits, parse_epilogue

from warpconv.runtime import arrays, env
from warpconv.runtime.arrays import axes
from . import pitch, separable as factors_of, signatures
from warpconv.runtime.arrays import ArrayView
from .checks import MOST_LAYERS, Misaligned, bias_of, check_out, residual_of
from .given import check_plan, layer_given, token
from .kernel import Filter, Kernel
from .place import resolve_device

_kernels: dict[tuple, Kernel] = {}                          # by layer without its batch, and device
_quick: dict[tuple, tuple[Kernel, ...]] = {}                # by the call's arguments as they were given
_by_plan: dict[tuple[str, int | None], Kernel] = {}         # by plan, and device
_by_factors: dict[tuple, Kernel | None] = {}                # by layer of whole filters, and device
_lock = threading.RLock()
on_clear: list[Callable[[], None]] = []                     # of those who remember kernels themselves

MOST_KERNELS = 4        # that one call's arguments may need, by what lies at odd addresses or tells no order of axes


def conv2d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1, *, padding_mode: str = "zeros", padding_value: float = 0.0, activation: str | None = None,
           epilogue: Iterable[Any] = (), algorithm: str = "auto", layout: Layout | str = "NCHW",
           accum_dtype: str | None = None, out_dtype: str | None = None, cast: str = "nearest", device: str = "auto",
           separable: bool | None = None, residual: Any = None, out: Any = None, stream: Any = None,
           workspace_limit: int | None = None) -> Any:
    """2D cross-correlation as torch.nn.functional.conv2d, by a kernel specialised to the layer.

    ``input`` (N, C, H, W) and ``weight`` (K, C/groups, R, S), float32, float16 or bfloat16, both of one type, or an
    input of uint8, int8, uint16 or int16 and a weight of float32 (or of int8, int16, int32: then products and sums are
    exact in int32): NumPy arrays (bfloat16 by ml_dtypes), PyTorch tensors, CuPy arrays, GPUArrays, or anything with
    ``__cuda_array_interface__`` or DLPack; ``bias`` (K,), of the input's type, float32 for integers. ``stride``,
    ``padding``, ``dilation``: int or pair; padding also ((top, bottom), (left, right)), 'same' or 'valid'.
    ``padding_mode`` says what stands in the padding: 'zeros', 'constant' (then ``padding_value``), 'replicate',
    'reflect' (edge not repeated), 'symmetric' (edge repeated) or 'circular', by torch's names; in each of them the
    image may be smaller than the padding. ``epilogue`` is a list of steps applied to each output
    ('bias', 'relu', 'clamp(0,6)', ...; docs/epilogues.md has them all), ``activation`` sugar for a last one.
    ``residual``: an array like the output, of its type, added where 'residual' stands in the list, at the end of the
    list (before ``activation``) if it does not; it may be ``out`` itself.

    ``layout``: the order of the axes of input and output, 'NCHW' or 'NHWC'. What order they have in memory is seen by
    the input's strides and kept: a channels_last tensor gives one, and nothing is copied. ``accum_dtype``: the
    arithmetic of products and sums, 'float32' if None; 'float16' means that of 16-bit elements themselves.
    ``out_dtype``: the output's element type (and that of ``out``), the input's if None; an integer type is rounded to
    by ``cast``: 'nearest' (to even, limited to the type's range) or 'truncate' (to zero, modulo 2^bits).
    ``device``: 'auto' (where the arrays are; NumPy goes to a GPU if one is usable, else to the CPU device), 'cpu',
    'cuda', 'cuda:1'. ``workspace_limit``: bytes of workspace that the call may take at most, beside the reordered
    copy of a filter that some kernels make; WARPCONV_WORKSPACE_LIMIT if None, as it stands when a layer is called
    first.
    ``separable`` None: a filter of one channel in host memory that is a column times a row, to a few float32 roundings,
    is computed as that where it is quicker and no algorithm is named; False: never; True: demanded.

    Arrays with gaps between rows, planes and images (crops, padded rows) are read and written where they are, wherever
    that is quicker than a copy (docs/pitch.md).

    Returns (N, K, P, Q), or (N, P, Q, K) for 'NHWC', of the input's library and type (or ``out_dtype``), in ``out`` if
    given, which has the input's order in memory. Raises ShapeError, ArgumentError, ArgumentTypeError, UnsupportedSpec
    or DeviceError before anything is launched or written.
    """
    signed = signatures.sign(input), signatures.sign(weight)
    key = None
    if signed[0] is not None and signed[1] is not None:
        key = (*signed, bias is None, residual is None, token(stride), token(padding), token(dilation),
               token(groups), activation, token(epilogue), algorithm, layout, accum_dtype, device,
               token(workspace_limit), padding_mode, token(padding_value), out_dtype, cast, separable)
        try:
            known = _quick.get(key, ())
        except TypeError:       # lists and other unhashable arguments
            key, known = None, ()
        for kernel in known:
            done = kernel.repeat(input, weight, bias, residual, out, stream, signed)
            if done is not None:
                return done
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
                "padding_mode": padding_mode, "padding_value": padding_value, "out_dtype": out_dtype, "cast": cast}
    kernel, result = _conv2d(input, weight, bias, geometry, activation, epilogue, algorithm, layout, accum_dtype,
                             device, residual, out, stream, workspace_limit, separable)
    if key is not None and kernel not in _quick.get(key, ()):
        if len(_quick) > MOST_LAYERS:
            _quick.clear()
        _quick[key] = (*_quick.get(key, ()), kernel)[-MOST_KERNELS:]
    return result


def conv2d_and_kernel(input: Any, weight: Any, *, groups: int, padding: Any, padding_mode: str, padding_value: float,
                      epilogue: Iterable[Any], algorithm: Any, layout: Any, out_dtype: str, cast: str, device: Any,
                      out: Any, stream: Any) -> tuple[Kernel, Any]:
    """conv2d for callers who remember the kernel of a call: it, and the output. Raises as conv2d does."""
    geometry = {"stride": 1, "padding": padding, "dilation": 1, "groups": groups, "padding_mode": padding_mode,
                "padding_value": padding_value, "out_dtype": out_dtype, "cast": cast}
    return _conv2d(input, weight, None, geometry, None, epilogue, algorithm, layout, None, device, None, out, stream,
                   None, None)


def _conv2d(input: Any, weight: Any, bias: Any, geometry: dict[str, Any], activation: Any, epilogue: Any,
            algorithm: Any, layout: Any, accum_dtype: Any, device: Any, residual: Any, out: Any, stream: Any,
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
    want = _Wanted(resolve_device(device, x, shape, depth=4), algorithm, steps, _numerics(accum_dtype),
                   limit=call_limit(workspace_limit))
    factors = _factors(shape, want, weight, w, separable)
    if factors is not None:
        weight, shape, told = factors.weight, replace(shape, separable=True), replace(told, separable=True)
        w = arrays.view(weight, "weight")
    shape = _where_quicker(gaps, told, shape, x, want)
    kernel = _known(shape, want)
    if kernel is None:      # a mistake in what the kernel itself would check shall not cost a compilation
        views = {"input": x, "weight": w}
        if bias is not None:
            views["bias"] = bias_of(shape.k, shape.bias_dtype, bias, x)
        if residual is not None:
            views["residual"] = residual_of(residual, shape, order, x)
        if out is not None:
            check_out(out, shape, order, views)
    kernel = _kernel(shape, want).for_axes(order)
    try:
        return kernel, kernel(input, weight, bias, residual=residual, out=out, stream=stream)
    except Misaligned:
        kernel = _anywhere(kernel, shape, want).for_axes(order)
        return kernel, kernel(input, weight, bias, residual=residual, out=out, stream=stream)


def _where_quicker(gaps: pitch.Gaps | None, told: ConvShape, dense: ConvShape, x: ArrayView,
                   want: _Wanted) -> ConvShape:
    """The layer of arrays with their gaps (``told``: in the order that they tell), or of copies without. Arrays that go
    to another device are copied on the way."""
    if gaps is None or gaps.memory is not told.layout or (x.device is None) is not (want.target is None):
        return dense
    apart = gaps.on(told)
    return apart if pitch.quicker(_key(apart, want), apart, dense, lambda layer: _plan(layer, want)) else dense


def _factors(shape: ConvShape, want: _Wanted, weight: Any, view: ArrayView,
             separable: bool | None) -> factors_of.Factors | None:
    """The factors of a call's filter where it is taken as separable: demanded, or seen to be that and quicker."""
    if separable is None and want.algorithm != "auto":
        return None
    found = factors_of.recognised(shape, weight, view, separable)
    return found if found is not None and (separable or _pays(shape, want)) else None


def _pays(shape: ConvShape, want: _Wanted) -> bool:
    return factors_of.pays(shape, arch=want.arch or _arch(want.target), epilogue=want.epilogue, numerics=want.numerics,
                           limit=want.limit)


def specialize(shape: ConvShape, *, arch: Arch | str | None = None, device: str = "auto", algorithm: str = "auto",
               plan: KernelPlan | None = None, epilogue: Iterable[Any] = (), bias: bool = False,
               activation: str | None = None, settings: Mapping[str, Any] | None = None,
               layout: Layout | str | None = None, accum_dtype: str | None = None,
               workspace_limit: int | None = None) -> Kernel:
    """Plan and build a kernel for ``shape`` (and any other N, H, W) without launching it.

    ``plan`` takes a KernelPlan as it is; else ``algorithm`` and plan values (``settings``) choose. With ``bias`` or
    'bias' in ``epilogue`` the kernel takes a bias. ``layout`` is the order of the arrays' axes, the shape's if None;
    in memory they have NHWC order if either of the two is NHWC ('NCHW' over an NHWC shape is for channels_last
    tensors). ``accum_dtype`` as in conv2d; ``workspace_limit`` too, for the sizes of ``shape``. Raises
    UnsupportedSpec, ArgumentError, DeviceError, ToolNotFound, CompileError or KernelNotBuilt.
    """
    if not isinstance(shape, ConvShape):
        raise ArgumentTypeError("specialize takes a ConvShape", argument="shape", value=type(shape).__name__,
                                hint="warpconv.ConvShape(c=..., h=..., w=..., k=..., r=..., s=...)")
    order = shape.layout if layout is None else Layout.parse(layout)
    if order is Layout.NHWC:
        shape = replace(shape, layout=order)
    target = resolve_device(device, None, shape)
    if plan is not None:
        check_plan(plan, shape, algorithm, settings, epilogue, bias, activation, accum_dtype, workspace_limit)
        return _make(plan, target).for_axes(order)
    steps = parse_epilogue(epilogue, bias=bias, activation=activation, takes_bias=True)
    arch = None if arch is None else Arch.parse(arch)
    want = _Wanted(target, algorithm, steps, _numerics(accum_dtype), arch, settings, call_limit(workspace_limit))
    kernel = _kernel(shape, want).for_axes(order)
    if algorithm != "auto" or settings or not factors_of.eligible(shape):
        return kernel
    return kernel.recognising(lambda: _factored(shape, want, order))


def _factored(shape: ConvShape, want: _Wanted, order: Layout, always: bool = False) -> Kernel | None:
    """The layer's kernel for separable filters, where that is quicker than whole ones, or ``always`` if there is one."""
    try:
        return _kernel(replace(shape, separable=True), want).for_axes(order) if always or _pays(shape, want) else None
    except UnsupportedSpec:
        return None


def factored(shape: ConvShape, x: ArrayView, device: str = "auto", always: bool = False) -> Kernel | None:
    """The kernel of a layer (of whole filters) for callers who have its factors: it takes them, (K, 1, 1, R + S), and
    an input with the gaps of ``x`` where that is quicker than a copy. None where the whole filter is quicker (but if
    ``always``: the caller has no use for it), or the layer has no such kernel. Raises as conv2d does."""
    gaps = pitch.gaps_of(shape.layout, shape.layout, x, None, None)
    key = shape, gaps, x.device, device, always
    if key not in _by_factors:      # looked for once: to plan both kernels takes longer than a launch
        target = resolve_device(device, x, shape, depth=6)
        want = _Wanted(target, "auto", (), Numerics.FLOAT32, limit=call_limit(None))
        if len(_by_factors) > MOST_LAYERS:
            _by_factors.clear()
        _by_factors[key] = _factored(_where_quicker(gaps, shape, shape, x, want), want, shape.layout, always)
    return _by_factors[key]


def clear() -> None:
    """Forget the kernels kept in memory (the disk cache stays)."""
    pitch.clear()
    for forget in on_clear:
        forget()
    with _lock:
        _kernels.clear()
        _quick.clear()
        _by_factors.clear()
        _by_plan.clear()


class _Wanted(NamedTuple):
    """What is asked of a kernel besides the layer; no ``target`` is the CPU device."""

    target: int | None
    algorithm: str
    epilogue: tuple[Epilogue, ...]
    numerics: Numerics
    arch: Arch | None = None
    settings: Mapping[str, Any] | None = None
    limit: int | None = None


def call_limit(given: int | None) -> int | None:
    """The limit on workspace of a call, or the environment's."""
    return check_limit(given) if given is not None else env.settings().workspace_limit


def _numerics(accum_dtype: Any) -> Numerics:
    return Numerics.FLOAT32 if accum_dtype is None else Numerics.parse(accum_dtype, "accum_dtype")


def _key(shape: ConvShape, want: _Wanted) -> tuple:
    """The shape key of the memory cache. Raises ArgumentTypeError for what can be no algorithm or settings."""
    target, algorithm, epilogue, numerics, arch, settings, limit = want
    if not isinstance(algorithm, str):
        raise ArgumentTypeError("algorithm must be a name", argument="algorithm", value=algorithm,
                                hint="'auto', 'reuse', ...")
    if settings is not None and not (isinstance(settings, Mapping) and all(isinstance(n, str) for n in settings)):
        raise ArgumentTypeError("settings must be a mapping of names to values", argument="settings", value=settings,
                                hint="{'exchange': 'packed'}")
    values = tuple(sorted((name, repr(value)) for name, value in settings.items())) if settings else ()
    return _without_batch(shape), index_bits(shape), target, algorithm, epilogue, numerics, arch, values, limit


def _known(shape: ConvShape, want: _Wanted) -> Kernel | None:
    """The kernel kept for a layer and its batch."""
    kernel = _kernels.get(key := _key(shape, want))
    return kernel if kernel is None or _suits(kernel, shape, want) else _kernels.get((shape, *key))


def _suits(kernel: Kernel, shape: ConvShape, want: _Wanted) -> bool:
    """Whether a kernel made for one batch of a layer is one for this batch, too."""
    return kernel.program.refusal(shape) is None and kernel.program.over_limit(shape, want.limit) is None


def _kernel(shape: ConvShape, want: _Wanted) -> Kernel:
    """The memory cache: a hit costs one dictionary look-up.

    A kernel is found by the layer without its batch; where its plan asks something of the batch that this one is not,
    or takes too much workspace for it, the layer with its batch has a kernel of its own.
    """
    key = _key(shape, want)
    kernel = _kernels.get(key)
    if kernel is not None and not _suits(kernel, shape, want):
        key = (shape, *key)
        kernel = _kernels.get(key)
    if kernel is None:
        with _lock:
            kernel = _kernels.get(key)
            if kernel is None:
                kernel = _from_packs(shape, want) or _make(_plan(shape, want), want.target)
                if len(_kernels) > MOST_LAYERS:     # kernels stay, by their plans; only sizes are forgotten
                    _kernels.clear()
                _kernels[key] = kernel
    return kernel


def _plan(shape: ConvShape, want: _Wanted) -> KernelPlan:
    """By what was measured on this GPU, where the layer was; that may ask for another batch, or be of another
    version."""
    def by(table: Any) -> KernelPlan:
        return plan_layer(shape, algorithm=want.algorithm, arch=want.arch or _arch(want.target), epilogue=want.epilogue,
                          settings=want.settings, tuning=table, numerics=want.numerics, workspace_limit=want.limit)

    if want.target is None or want.algorithm != "auto" or want.settings or want.numerics is not Numerics.FLOAT32:
        return by(None)
    from warpconv.runtime import tuning
    try:
        return by(tuning.table(want.target))
    except (UnsupportedSpec, ArgumentError):
        return by(None)


def _anywhere(kernel: Kernel, shape: ConvShape, want: _Wanted) -> Kernel:
    """A kernel for the same layer that takes arrays at any address: the same algorithm without vectors, or direct."""
    if kernel.plan is not None and "vector" in kernel.plan.settings():
        try:
            found = _kernel(shape, want._replace(algorithm=kernel.spec.algorithm, settings={"vector": 1}))
            if all(a.admits(shape.dtype.itemsize) for a in found.program.arguments if a.is_pointer):
                return found
        except (UnsupportedSpec, ArgumentError):
            pass
    return _kernel(shape, want._replace(algorithm="direct", settings=None))


@functools.lru_cache(maxsize=4096)
def _without_batch(shape: ConvShape) -> ConvShape:
    return shape.with_batch(1)


def _make(plan: KernelPlan, target: int | None) -> Kernel:
    """One Kernel per plan and device: layers that differ in N, H and W alone share it."""
    from warpconv.codegen.serialise import plan_digest
    key = plan_digest(plan), target
    with _lock:
        if key not in _by_plan:
            _by_plan[key] = _load_cpu(plan) if target is None else _load_cuda(plan, target)
        return _by_plan[key]


def _load_cpu(plan: KernelPlan) -> Kernel:
    from warpconv.runtime.devices.cpu import backend
    loaded, source = backend.load(plan)
    return Kernel(plan.spec, plan.program, loaded, source=source, plan=plan)


@functools.lru_cache(maxsize=1)
def _forget_modules_at_exit() -> None:
    """PyCUDA warns about modules that are still there when the interpreter ends."""
    atexit.register(lambda: [kernel._backend.forget_modules() for kernel in _by_plan.values()
                             if kernel._backend.ordinal is not None])


def _load_cuda(plan: KernelPlan, ordinal: int) -> Kernel:
    from warpconv.runtime.build.pipeline import build
    from warpconv.runtime.devices.cuda.backend import CudaBackend
    built = build(plan)
    loaded = CudaBackend(plan.program, built.compiled.cubin, ordinal)
    loaded.load()
    _forget_modules_at_exit()
    return Kernel(plan.spec, plan.program, loaded, source=built.source, report=built.compiled, plan=plan)


def _from_packs(shape: ConvShape, want: _Wanted) -> Kernel | None:
    if want.settings or not env.settings().pack:
        return None
    from warpconv.runtime.pack.pack import find_in_packs
    return find_in_packs(shape, device=want.target, algorithm=want.algorithm, epilogue=want.epilogue, arch=want.arch,
                         numerics=want.numerics, workspace_limit=want.limit)


def _arch(target: int | None) -> Arch:
    if target is None:
        return DEFAULT_ARCH
    from warpconv.runtime.devices.cuda import contexts
    return Arch.parse(contexts.arch(target))
