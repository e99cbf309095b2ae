"""conv2d and specialize: from arrays or a ConvShape to a kernel on a device, planned and built at most once."""

from __future__ import annotations

import atexit
import functools
import threading
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Iterable

from warpconv.codegen.arch import Arch, DEFAULT_ARCH
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, DeviceError
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, KernelSpec, index_bits, parse_epilogue

from . import arrays, env
from .arrays import ArrayView
from .call import MOST_LAYERS, bias_of, check_out
from .kernel import Filter, Kernel

_kernels: dict[tuple, Kernel] = {}                          # by layer without its batch, and device
_by_plan: dict[tuple[str, int | None], Kernel] = {}         # by plan, and device
_lock = threading.RLock()

# Outputs per second of a 5x5 filter on the CPU device with two cores; only for the estimate in the warning.
CPU_RATE = 2.0e7


def conv2d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1, *, activation: str | None = None, epilogue: Iterable[Any] = (), algorithm: str = "auto",
           device: str = "auto", out: Any = None, stream: Any = None) -> Any:
    """2D cross-correlation as torch.nn.functional.conv2d, by a kernel specialised to the layer.

    ``input`` (N, C, H, W) and ``weight`` (K, C/groups, R, S), float32: NumPy arrays, PyTorch tensors, CuPy arrays,
    GPUArrays, or anything with ``__cuda_array_interface__`` or DLPack; ``bias`` (K,). ``stride``, ``padding``,
    ``dilation``: int or pair; padding also ((top, bottom), (left, right)), 'same' or 'valid'. ``epilogue`` is a list
    of steps applied to each output ('bias', 'relu'), ``activation`` sugar for a last one. ``device``: 'auto' (where
    the arrays are; NumPy goes to a GPU if one is usable, else to the CPU device), 'cpu', 'cuda', 'cuda:1'.

    Returns (N, K, P, Q), of the input's library, in ``out`` if given. Raises ShapeError, ArgumentError,
    ArgumentTypeError, UnsupportedSpec or DeviceError before anything is launched or written.
    """
    if isinstance(weight, Filter):
        raise ArgumentTypeError("a Filter belongs to its kernel", argument="weight",
                                hint="call the kernel that prepared it: filter.kernel(input, filter)")
    x = arrays.view(input, "input", dtypes=(DType.FLOAT32,), ndim=4)
    w = arrays.view(weight, "weight", dtypes=(DType.FLOAT32,), ndim=4)
    if x.device != w.device:
        raise ArgumentTypeError("input and weight are not in one place: one is in host memory, or they are on two GPUs",
                                argument="weight", hint="move both to one device")
    shape = _layer(x, w, stride, padding, dilation, groups)
    steps = parse_epilogue(epilogue, bias=bias is not None, activation=activation)
    target = resolve_device(device, x, shape)
    key = _key(shape, target, algorithm, steps, None, None)
    kernel = _kernels.get(key)
    if kernel is None:      # a mistake in what the kernel itself would check shall not cost a compilation
        views = {"input": x, "weight": w}
        if bias is not None:
            views["bias"] = bias_of(shape.k, shape.dtype, bias, x)
        if out is not None:
            check_out(out, shape, views)
        kernel = _kernel(key, shape, target, algorithm, steps, None, None)
    return kernel(input, weight, bias, out=out, stream=stream)


def _layer(x: ArrayView, w: ArrayView, *geometry: Any) -> ConvShape:
    """The call's layer; checking its sizes takes longer than a launch, so it is done once per set of arguments."""
    try:
        return _layer_of(x.shape, w.shape, x.dtype, _kinds(geometry), *geometry)
    except ArgumentTypeError:
        raise
    except TypeError:       # lists and other unhashable arguments
        return _layer_of.__wrapped__(x.shape, w.shape, x.dtype, (), *geometry)


def _kinds(value: Any) -> Any:
    """Types, tuples taken apart: True and 1, or 1.0 and 1, are equal as keys but not as arguments."""
    return tuple(map(_kinds, value)) if type(value) is tuple else type(value)


@functools.lru_cache(maxsize=4096)
def _layer_of(x: tuple[int, ...], w: tuple[int, ...], dtype: DType, kinds: Any, stride: Any, padding: Any,
              dilation: Any, groups: int) -> ConvShape:
    return ConvShape.of(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups, dtype=dtype)


def specialize(shape: ConvShape, *, arch: Arch | str | None = None, device: str = "auto", algorithm: str = "auto",
               plan: KernelPlan | None = None, epilogue: Iterable[Any] = (), bias: bool = False,
               activation: str | None = None, settings: Mapping[str, Any] | None = None) -> Kernel:
    """Plan and build a kernel for ``shape`` (and any other N, H, W) without launching it.

    ``plan`` takes a KernelPlan as it is; else ``algorithm`` and plan values (``settings``) choose. With ``bias`` or
    'bias' in ``epilogue`` the kernel takes a bias. Raises UnsupportedSpec, ArgumentError, DeviceError, ToolNotFound,
    CompileError or KernelNotBuilt.
    """
    if not isinstance(shape, ConvShape):
        raise ArgumentTypeError("specialize takes a ConvShape", argument="shape", value=type(shape).__name__,
                                hint="warpconv.ConvShape(c=..., h=..., w=..., k=..., r=..., s=...)")
    target = resolve_device(device, None, shape)
    if plan is not None:
        _check_plan(plan, shape, algorithm, settings, epilogue, bias, activation)
        return _make(plan, target)
    steps = parse_epilogue(epilogue, bias=bias, activation=activation, takes_bias=True)
    arch = None if arch is None else Arch.parse(arch)
    return _kernel(_key(shape, target, algorithm, steps, arch, settings), shape, target, algorithm, steps, arch, settings)


def _check_plan(plan: Any, shape: ConvShape, algorithm: str, settings: Any, *epilogue: Any) -> None:
    """A given plan is taken as it is: nothing else may ask for something different, and it must serve the shape."""
    if not isinstance(plan, KernelPlan):
        raise ArgumentTypeError("plan must be a KernelPlan", argument="plan", value=type(plan).__name__,
                                hint="warpconv.plan(spec, settings) makes one")
    if algorithm != "auto" or settings or any(epilogue):
        raise ArgumentError("a plan has its algorithm, settings and epilogue already", argument="plan",
                            value=plan.spec.name, hint="give the plan alone, or no plan")
    needed = KernelSpec.of(shape, algorithm=plan.spec.algorithm, arch=plan.spec.arch, epilogue=plan.spec.epilogue)
    if plan.spec not in (needed, replace(needed, index_bits=64)):
        raise ArgumentError("this plan is for other layers", argument="plan", value=str(plan.spec),
                            hint=f"the shape needs {needed}")


def resolve_device(device: str, x: ArrayView | None, shape: ConvShape) -> int | None:
    """The GPU's ordinal, or None for the CPU device. Raises ArgumentError, ArgumentTypeError or DeviceError."""
    ordinal = x.device if x is not None else None
    kind, _, number = str(device).partition(":")
    if kind not in ("auto", "cpu", "cuda") or (number and (kind != "cuda" or not number.isdecimal())):
        raise ArgumentError("unknown device", argument="device", value=device, hint="auto, cpu, cuda or cuda:1")
    if kind == "cpu":
        if ordinal is not None:
            raise ArgumentTypeError(f"the arrays are on GPU {ordinal}", argument="device", value=device,
                                    hint="copy them to host memory, or leave device='auto'")
        return None
    if ordinal is not None:
        if number and int(number) != ordinal:
            raise ArgumentTypeError(f"the arrays are on GPU {ordinal}", argument="device", value=device,
                                    hint="move them, or leave device='auto'")
        return ordinal
    from .cuda import contexts
    reason = contexts.usable()
    if reason is None:
        chosen = int(number) if number else contexts.default_device()
        contexts.arch(chosen)
        return chosen
    if kind == "cuda":
        raise DeviceError(f"no GPU can be used: {reason}", argument="device", value=device,
                          hint="device='cpu' executes the same kernel without one")
    _warn_once(reason, shape.n * shape.k * shape.p * shape.q * shape.reduction / 25 / CPU_RATE)
    return None


def clear() -> None:
    """Forget the kernels kept in memory (the disk cache stays)."""
    with _lock:
        _kernels.clear()
        _by_plan.clear()


def _key(shape: ConvShape, target: int | None, algorithm: str, epilogue: tuple[Epilogue, ...], arch: Arch | None,
         settings: Mapping[str, Any] | None) -> tuple:
    """The shape key of the memory cache. Raises ArgumentTypeError for what can be no algorithm or settings."""
    if not isinstance(algorithm, str):
        raise ArgumentTypeError("algorithm must be a name", argument="algorithm", value=algorithm, hint="'auto', 'reuse', ...")
    if settings is not None and not (isinstance(settings, Mapping) and all(isinstance(n, str) for n in settings)):
        raise ArgumentTypeError("settings must be a mapping of names to values", argument="settings", value=settings,
                                hint="{'exchange': 'packed'}")
    values = tuple(sorted((name, repr(value)) for name, value in settings.items())) if settings else ()
    return _without_batch(shape), index_bits(shape), target, algorithm, epilogue, arch, values


def _kernel(key: tuple, shape: ConvShape, target: int | None, algorithm: str, epilogue: tuple[Epilogue, ...],
            arch: Arch | None, settings: Mapping[str, Any] | None) -> Kernel:
    """The memory cache: a hit costs one dictionary look-up."""
    kernel = _kernels.get(key)
    if kernel is None:
        with _lock:
            kernel = _kernels.get(key)
            if kernel is None:
                kernel = _from_packs(shape, target, algorithm, epilogue, arch, settings) or _make(
                    plan_layer(shape, algorithm=algorithm, arch=arch or _arch(target), epilogue=epilogue,
                               settings=settings), target)
                if len(_kernels) > MOST_LAYERS:     # kernels stay, by their plans; only sizes are forgotten
                    _kernels.clear()
                _kernels[key] = kernel
    return kernel


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
    from .cpu import backend
    loaded, source = backend.load(plan)
    return Kernel(plan.spec, plan.program, loaded, source=source, plan=plan)


@functools.lru_cache(maxsize=1)
def _forget_modules_at_exit() -> None:
    """PyCUDA warns about modules that are still there when the interpreter ends."""
    atexit.register(lambda: [kernel._backend.forget_modules() for kernel in _by_plan.values()
                             if kernel._backend.ordinal is not None])


def _load_cuda(plan: KernelPlan, ordinal: int) -> Kernel:
    from .build import build
    from .cuda.backend import CudaBackend
    built = build(plan)
    loaded = CudaBackend(plan.program, built.compiled.cubin, ordinal)
    loaded.load()
    _forget_modules_at_exit()
    return Kernel(plan.spec, plan.program, loaded, source=built.source, report=built.compiled, plan=plan)


def _from_packs(shape: ConvShape, target: int | None, algorithm: str, epilogue: tuple[Epilogue, ...],
                arch: Arch | None, settings: Mapping[str, Any] | None) -> Kernel | None:
    if settings or not env.settings().pack:
        return None
    from .pack import find_in_packs
    return find_in_packs(shape, device=target, algorithm=algorithm, epilogue=epilogue, arch=arch)


def _arch(target: int | None) -> Arch:
    if target is None:
        return DEFAULT_ARCH
    from .cuda import contexts
    return Arch.parse(contexts.arch(target))


@functools.lru_cache(maxsize=1)
def _warned() -> list[bool]:
    return []


def _warn_once(reason: str, seconds: float) -> None:
    if not _warned():
        _warned().append(True)
        warnings.warn(f"warpconv runs on the CPU device ({reason}); this layer takes about {seconds:.2g} s there. "
                      "device='cpu' asks for it without this warning.", RuntimeWarning, stacklevel=4)
