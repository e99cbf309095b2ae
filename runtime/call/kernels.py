"""Kernels by what is asked for: kept in memory, from a pack, or planned and built at most once."""

from __future__ import annotations

import atexit
import contextlib
import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from warpconv.codegen import adjoint
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, DeviceError, KernelNotBuilt, UnsupportedSpec
from warpconv.codegen.hardware import DEFAULT_ARCH, Arch, Hardware
from warpconv.codegen.numerics import Accumulator, Numerics, Precision
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.request import Request, check_limit, settings_of
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Operation, index_bits
from warpconv.codegen.templates import Overlay
from warpconv.runtime import env, forks
from warpconv.runtime.build.templates import laid_over

from .checks import MOST_LAYERS
from .kept import Kept
from .kernel import Kernel

if TYPE_CHECKING:
    from warpconv.runtime.build.pipeline import Text

by_request: Kept[Any] = Kept(MOST_LAYERS)         # by request without its batch, and device; only sizes are forgotten
by_plan: Kept[Kernel] = Kept()                 # by plan, and device: these stay
# Threads that plan have Python's lock in turns of milliseconds, for which those that load and store kernels would wait
_planning = forks.lock()


class Ask(NamedTuple):
    """A request and where its kernel runs (None: the CPU device); ``exact``: its architecture was asked for, so that a
    pack's kernel for another one will not do; ``templates`` that are laid over warpconv's."""

    request: Request
    device: int | None
    exact: bool = False
    templates: Overlay | None = None

    def of(self, layer: ConvShape) -> Ask:
        """The same for another layer."""
        return self._replace(request=replace(self.request, layer=layer))


def asked(layer: ConvShape, device: int | None, *, arch: Arch | str | None = None, **wanted: Any) -> Ask:
    """What is asked for on a device, whose architecture it is for if none is named. Raises as Request.of does."""
    request = Request.of(layer, arch=_hardware(device) if arch is None else arch, **wanted)
    return Ask(request, device, arch is not None, laid_over())


def call_limit(given: int | None) -> int | None:
    """The limit on workspace of a call, or the environment's."""
    return check_limit(given) if given is not None else env.settings().workspace_limit


def numerics_of(accum_dtype: Any, precision: Any = Precision.FLOAT32) -> Numerics:
    """The arithmetic of a call. Raises ArgumentError for unknown names, and a pair that no kernel has."""
    return Numerics.of(accum_dtype, precision)


def key_of(ask: Ask) -> tuple:
    """The key of the memory cache: layers that differ in the batch or the value of their border share a kernel."""
    return _any_call(ask.request), index_bits(ask.request.layer), ask.device, ask.exact, ask.templates


@functools.lru_cache(maxsize=4096)
def _any_call(request: Request) -> Request:
    return request.for_any_batch.for_any_border


def known(ask: Ask) -> Kernel | None:
    """The kernel kept for a layer and its batch; a hit costs one look-up.

    A kernel is found by the layer without its batch; where its plan asks something of the batch that this one is not,
    or takes too much workspace for it, the layer with its batch has a kernel of its own.
    """
    kernel = by_request.find(key := key_of(ask))
    if kernel is not None and not _suits(kernel, ask):
        kernel = by_request.find((ask.request.layer, *key))
    return None if kernel is None else _bordered(kernel, ask)


def _suits(kernel: Kernel, ask: Ask) -> bool:
    """Whether a kernel made for one batch of a layer, and one value of its border, is one for these, too."""
    layer = ask.request.layer
    return (kernel.program.refusal(layer) is None and kernel.spec.takes_border(layer.padding_value)
            and kernel.program.over_limit(layer, ask.request.workspace_limit) is None)


def made(ask: Ask) -> Kernel:
    """The kernel of a layer that known() has none for: planned and built."""
    def new() -> Kernel:
        return _from_packs(ask) or _noted_or_planned(ask)

    kernel = by_request.get(key := key_of(ask), new)
    if not _suits(kernel, ask):
        kernel = by_request.get((ask.request.layer, *key), new)
    return _bordered(kernel, ask)


def _bordered(kernel: Kernel, ask: Ask) -> Kernel:
    """The kernel with the value of the layer's border, where it has one."""
    value = ask.request.layer.padding_value
    return kernel.for_border(value) if value else kernel


def kernel_of(ask: Ask) -> Kernel:
    return known(ask) or made(ask)


def plan_of(ask: Ask) -> KernelPlan:
    """By what was measured on this GPU, where the layer was. On the CPU device float32 layers are planned for float32
    units, where nothing else was asked for: to play tensor cores takes the host ten times as long."""
    from warpconv.codegen.resolution import resolve     # every planner's module, which a kernel from the disk spares
    table = None
    summed, request = ask.request.numerics.accumulator, ask.request
    if (ask.device is None and not ask.exact and request.by_rule and request.layer.dtype is DType.FLOAT32
            and request.numerics is Numerics.FLOAT32):
        return resolve(replace(request, numerics=Numerics.IEEE)).plan
    if ask.device is not None and ask.request.by_rule and summed is Accumulator.FLOAT32:
        from warpconv.runtime import tuning
        table = tuning.table(ask.device)
    return resolve(ask.request, table).plan


def anywhere(kernel: Kernel, ask: Ask) -> Kernel:
    """A kernel for the same layer that takes arrays at any address: the same algorithm without vectors, or the one that
    serves all layers of its operation; of products in parts float32's own, where it has no such."""
    def other(algorithm: str, **settings: Any) -> Kernel:
        values = tuple(settings.items())
        return kernel_of(ask._replace(request=replace(ask.request, algorithm=algorithm, settings=values)))

    vectors = {} if kernel.plan is None else {name: 1 for name in _VECTORS if name in kernel.plan.settings()}
    if vectors:
        try:
            found = other(kernel.spec.algorithm, **vectors)
            if all(a.admits(kernel.spec.dtype.itemsize) for a in found.program.arguments if a.is_pointer):
                return found
        except (UnsupportedSpec, ArgumentError):
            pass
    operation, layer = ask.request.operation, ask.request.layer
    kind = Operation.FORWARD if operation is Operation.DATA_GRADIENT and adjoint.refusal(layer) is None else operation
    *tried, (last, settings) = (_ANY_VOLUMES if layer.is_volume else _ANY_IMAGES)[kind]
    for algorithm, values in tried:
        try:
            return other(algorithm, **values)
        except UnsupportedSpec:
            pass
    try:
        return other(last, **settings)
    except UnsupportedSpec:
        if ask.request.numerics not in (Numerics.TF32X3, Numerics.FP16X3):
            raise
        return anywhere(kernel, ask._replace(request=replace(ask.request, numerics=Numerics.FLOAT32)))


_VECTORS = ("vector", "load_vector", "lane_vector", "vector_m", "vector_n")     # of plan values
_ALONE = {"vector": 1, "load_vector": 1, "lane_vector": 1}
# what takes arrays at any address, the quicker first; the last serves every layer
_ANY_IMAGES: dict[Operation, list[tuple[str, dict[str, int]]]] = {
    Operation.FORWARD: [("direct", {})], Operation.DATA_GRADIENT: [("phases", {})],
    Operation.FILTER_GRADIENT: [("filter_gradient", {"vector": 1})],
    Operation.BIAS_GRADIENT: [("bias_gradient", {"vector": 1})]}
_ANY_VOLUMES: dict[Operation, list[tuple[str, dict[str, int]]]] = {
    Operation.FORWARD: [("mma", {"vector": 1}), ("volume", _ALONE)], Operation.DATA_GRADIENT: [("volume_data", {})],
    Operation.FILTER_GRADIENT: [("filter_gradient_mma", {"vector_m": 1, "vector_n": 1}), ("volume_filter", _ALONE)]}


def make(plan: KernelPlan, device: int | None) -> Kernel:
    """One Kernel per plan and device: layers that differ in N, H and W alone share it, and its siblings those that
    differ in their border's value."""
    from warpconv.runtime.build.pipeline import Text
    return _kept(Text.of(plan), device)


def _noted_or_planned(ask: Ask) -> Kernel:
    asked = _asked(ask)         # before a plan is made: tables that change meanwhile are another question
    return _noted(ask, asked) or _planned(ask, asked)


def _planned(ask: Ask, asked: dict[str, Any]) -> Kernel:
    from warpconv.runtime.build import notes
    from warpconv.runtime.build.pipeline import Text
    if ask.device is not None:
        from warpconv.runtime.build import compilers
        compilers.begin(str(ask.request.target))
    with _planning:
        text = Text.of(plan_of(ask))
    made = _kept(text, ask.device)
    notes.keep(asked, text)
    return made


def _noted(ask: Ask, asked: dict[str, Any]) -> Kernel | None:
    """The kernel that an earlier process planned for the same, where the disk has it; its plan is made when it is
    looked at."""
    from warpconv.runtime.build import notes
    text = notes.find(asked)
    if text is None:
        return None

    def plan() -> KernelPlan:
        from warpconv.codegen.resolution import resolve
        return resolve(replace(ask.request, algorithm=text.spec.algorithm, settings=settings_of(text.settings),
                               numerics=text.spec.numerics)).plan

    with contextlib.suppress(KernelNotBuilt):
        return _kept(replace(text, plan=plan), ask.device)
    return None


def _asked(ask: Ask) -> dict[str, Any]:
    """All of an Ask that its plan depends on, as JSON takes it."""
    from warpconv.codegen.serialise import encode
    tables = None
    if ask.device is not None:
        from warpconv.runtime.tuning.user import stamp
        tables = stamp(ask.device)
    return {"request": encode(ask.request), "exact": ask.exact, "tables": tables,
            "templates": None if ask.templates is None else ask.templates.digest}


def _kept(text: Text, device: int | None) -> Kernel:
    from warpconv.codegen.serialise import identity_digest
    return by_plan.get((identity_digest(text.identity), device),
                       lambda: _load_cpu(text) if device is None else _load_cuda(text, device))


def _load_cpu(text: Text) -> Kernel:
    from warpconv.runtime.devices.cpu import backend
    loaded, source = backend.load(text)
    return Kernel(text.spec, text.program, loaded, source=source, plan=text.plan)


@functools.lru_cache(maxsize=1)
def _forget_modules_at_exit() -> None:
    """PyCUDA warns about modules that are still there when the interpreter ends."""
    def forget() -> None:
        for kernel in by_plan.values():
            if kernel._backend.ordinal is not None:
                with contextlib.suppress(DeviceError):      # the context may be gone, and the modules with it
                    kernel._backend.forget_modules()

    atexit.register(forget)


def _load_cuda(text: Text, ordinal: int) -> Kernel:
    from warpconv.runtime.build.pipeline import build
    from warpconv.runtime.devices.cuda.backend import CudaBackend
    built = build(text)
    loaded = CudaBackend(built.program, built.compiled.cubin, ordinal)
    loaded.load()
    _forget_modules_at_exit()
    return Kernel(built.spec, built.program, loaded, source=built.source, report=built.compiled, plan=built.plan)


def _from_packs(ask: Ask) -> Kernel | None:
    if ask.request.settings or ask.templates is not None or not env.settings().pack:
        return None
    from warpconv.runtime.pack.pack import find_in_packs
    return find_in_packs(ask.request, device=ask.device, exact=ask.exact)


def _hardware(target: int | None) -> Hardware:
    """The GPU that plans are made for."""
    if target is None:
        return Hardware.of(DEFAULT_ARCH)
    from warpconv.runtime.devices.cuda import contexts
    return contexts.hardware(target)
