"""Packs: kernels built ahead of time, served with neither compiler nor jinja2 nor a disk that can be written."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, DeviceError, KernelNotBuilt, PackError
from warpconv.codegen.hardware import DEFAULT_ARCH, Arch, Hardware
from warpconv.codegen.request import Request, of_pixels
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, parse_epilogue
from warpconv.runtime import env, forks, paths
from warpconv.runtime.build.pipeline import BuiltKernel, build_command
from warpconv.runtime.call.filter import Shared
from warpconv.runtime.call.kernel import Kernel

from .build import PackReport, build_pack
from .choice import PtxTooNew, check_ptx, near_misses, ptx_too_new, ranked, serves
from .conv import PackConv
from .format import (FolderTree, MANIFEST, Manifest, Record, Tree, array_bytes, load, read_files, read_manifest,
                     tree_of)
from .nodes import NodeRecord, digests
from .tasks import Row

__all__ = ["Pack", "PackConv", "PackKernel", "PackReport", "Row", "build_pack", "find_in_packs", "open_pack"]

_log = logging.getLogger("warpconv.pack")
_packs: dict[Path, tuple[Any, Pack]] = {}
_packs_lock = forks.lock()


@dataclass(frozen=True)
class PackKernel:
    """What a pack says of one kernel."""

    id: str
    spec: KernelSpec
    settings: Mapping[str, Any]
    layers: tuple[str, ...]
    ptx_isa: str | None     # None: there is a cubin only
    report: Any             # compilers.Compiled without the code: registers, spills, compiler, log
    size: int               # bytes of the cubin


class Pack(Shared):
    """An opened pack, verified whole. ``open_pack`` makes one; any thread may use it."""

    AGAIN = "keep its path, and call open_pack() where it is loaded"

    def __init__(self, path: Path, tree: Tree, manifest: Manifest):
        self.path = path
        self._tree = tree
        self._manifest = manifest
        self._kernels: dict[tuple[str, int | None], Kernel] = {}
        self._lock = forks.rlock()

    def __repr__(self) -> str:
        return f"<warpconv.Pack {self.path}: {len(self._manifest.records)} kernels>"

    @property
    def generator(self) -> Mapping[str, str]:
        """Version and digest of the generator that last wrote to the pack."""
        return dict(self._manifest.document.get("generator", {}))

    def kernels(self) -> tuple[PackKernel, ...]:
        """All kernels, in the order in which they were built."""
        return tuple(PackKernel(id=record.id, spec=record.kernel.spec, settings=dict(record.kernel.settings),
                                layers=tuple(layer.name for layer in record.layers),
                                ptx_isa=record.kernel.compiled.ptx_isa if record.has_ptx else None,
                                report=record.kernel.compiled, size=record.bytes)
                     for record in self._manifest.records)

    def read(self, kernel: str) -> BuiltKernel:
        """A kernel's source, cubin and report by its id, verified again. Raises PackError or ArgumentError."""
        return load(self._tree, self._record(kernel), str(self.path))

    def specialize(self, shape: ConvShape, *, device: str = "auto", arch: Arch | str | None = None,
                   algorithm: str = "auto", epilogue: Iterable[Any] = (), bias: bool = False,
                   activation: str | None = None, workspace_limit: int | None = None,
                   accum_dtype: str | None = None, precision: str = "float32") -> Kernel:
        """The pack's kernel for a layer, loaded on a device, and nothing compiled but PTX by the driver.

        ``arch`` takes only kernels built for that architecture. On device 'cpu' the kernel's text is executed. Raises
        KernelNotBuilt, with the command that adds it, where the pack has none; PtxTooNew (a DeviceError) where all it
        has is PTX that the driver is too old for; PackError where its files have changed since the pack was opened.
        Kernels that take more than ``workspace_limit`` (else WARPCONV_WORKSPACE_LIMIT) for the layer are left out.
        ``accum_dtype``, ``precision``: as in conv2d.
        """
        from warpconv.runtime.call.kernels import call_limit, numerics_of
        from warpconv.runtime.call.place import resolve_device
        if not isinstance(shape, ConvShape):
            raise ArgumentTypeError("specialize takes a ConvShape", argument="shape", value=type(shape).__name__,
                                    hint="warpconv.ConvShape(c=..., h=..., w=..., k=..., r=..., s=...)")
        steps = parse_epilogue(epilogue, bias=bias, activation=activation, takes_bias=True)
        target = resolve_device(device, None, shape)
        wanted = None if arch is None else Arch.parse(arch)
        hardware = Hardware.of(wanted or _device_arch(target) or DEFAULT_ARCH)
        request = Request(layer=of_pixels(shape) if algorithm == "auto" else shape, hardware=hardware,
                          algorithm=algorithm, epilogue=steps, workspace_limit=call_limit(workspace_limit),
                          numerics=numerics_of(accum_dtype, precision))
        kernel = self.find(request, device=target, exact=wanted is not None)
        if kernel is not None:
            return kernel
        raise self._not_built(replace(request, layer=shape), target, wanted)

    def conv(self, name: str, *, device: str = "auto") -> PackConv:
        """A layer of the pack, ready to be called by an engine: ``pack.conv("conv1")(x)``.

        Parameters
        ----------
        name : str
            The layer's name, or what its model calls the node.
        device : str
            "auto", "cpu", "cuda" or "cuda:1"; with "auto" that of the arrays.

        Returns
        -------
        PackConv
            A callable; its filter and bias are the pack's, if it was built with weights.

        Raises
        ------
        ArgumentError
            The pack has no such layer.
        """
        nodes = self._manifest.nodes
        held = [(record, one) for record in self._manifest.records for one in record.layers]
        called = [key for key, node in nodes.items() if node.node == name]
        if any(one.name == name for _, one in held):
            called = [name]
        elif len(called) > 1:
            raise ArgumentError("the pack has several layers of this node", argument="name", value=name,
                                hint=f"by their names: {', '.join(called)}")
        found = [(record, one) for record, one in held if one.name in called]
        if not found:
            have = list(dict.fromkeys(one.name for record in self._manifest.records for one in record.layers))
            raise ArgumentError("the pack has no such layer", argument="name", value=name,
                                hint=f"it has {', '.join(have[:12])}{', ...' if len(have) > 12 else ''}")
        record, one = found[-1]
        return PackConv(self, one.name, one.shape, record.kernel.spec, nodes.get(one.name), self._tree, device)

    def nodes(self) -> Mapping[str, NodeRecord]:
        """What a model calls its layers, and the arrays that they read and write, by the layers' names."""
        return dict(self._manifest.nodes)

    def find(self, request: Request, *, device: int | None, exact: bool = False) -> Kernel | None:
        """As specialize, with a GPU's ordinal (None: the CPU device), and None where the pack has no such kernel. One
        that leans on a library is found by its name alone, as select() leaves it to those who name it. ``exact``: only
        those built for the request's architecture. Of single pixels, whose memory is the same in both orders, kernels
        for the other one are looked at last."""
        shape, algorithm, near = request.layer, request.algorithm, _device_arch(device)
        fitting = [record for record in self._manifest.records
                   if algorithm in ("auto", record.kernel.spec.algorithm)
                   and not (exact and record.kernel.spec.arch != request.target)
                   and serves(record.kernel.spec, shape, request.epilogue, request.numerics,
                              request.operation)
                   and record.kernel.program.refusal(shape) is None
                   and record.kernel.program.over_limit(shape, request.workspace_limit) is None
                   and (algorithm != "auto" or not record.kernel.program.library_calls)]
        too_new = None
        for record, by_ptx in ranked(fitting, shape, near):
            try:
                return self._kernel(record, by_ptx, device).for_border(shape.padding_value)
            except PtxTooNew as error:
                too_new = too_new or error
        if too_new is not None:
            raise too_new
        if shape.layout is Layout.NHWC and of_pixels(other := replace(shape, layout=Layout.NCHW)) == shape:
            return self.find(replace(request, layer=other), device=device, exact=exact)
        return None

    def _record(self, kernel: str) -> Record:
        found = next((record for record in self._manifest.records if record.id == kernel), None)
        if found is None:
            raise ArgumentError("the pack has no such kernel", argument="kernel", value=kernel,
                                hint="Pack.kernels() lists them")
        return found

    def _kernel(self, record: Record, by_ptx: bool, device: int | None) -> Kernel:
        """One Kernel for a record and device, however many layers ask for it."""
        with self._lock:
            key = (record.id, device)
            if key not in self._kernels:
                self._kernels[key] = self._load(record, by_ptx, device)
            return self._kernels[key]

    def _load(self, record: Record, by_ptx: bool, device: int | None) -> Kernel:
        built = load(self._tree, record, str(self.path))
        if device is None:
            from warpconv.runtime.devices.cpu.backend import load_text
            backend, _ = load_text(built.spec, built.program, built.source)
        else:
            backend = self._load_cuda(record, built, by_ptx, device)
        return Kernel(built.spec, built.program, backend, source=built.source, report=built.compiled)

    def _load_cuda(self, record: Record, built: BuiltKernel, by_ptx: bool, device: int) -> Any:
        from warpconv.runtime.devices.cuda.backend import CudaBackend
        if not by_ptx:
            backend = CudaBackend(built.program, built.compiled.cubin, device)
            backend.load()
            return backend
        cuda, command = driver_version(), f"warpconv build LAYERS --arch {_device_arch(device)} -o {self.path}"
        check_ptx(record, cuda, command)
        backend = CudaBackend(built.program, built.compiled.ptx.encode() + b"\0", device)
        try:
            backend.load()
        except DeviceError as error:
            if "newer than the driver" in error.message:        # the driver's own word, where the table has no row
                raise ptx_too_new(record, cuda, command) from error
            raise
        return backend

    def _not_built(self, request: Request, target: int | None, arch: Arch | None) -> KernelNotBuilt:
        arch = arch or _device_arch(target) or DEFAULT_ARCH
        have = ", ".join(sorted({str(record.kernel.spec.arch) for record in self._manifest.records})) or "nothing"
        shape, epilogue = request.layer, request.epilogue
        steps = f", then {', '.join(step.value for step in epilogue)}" if epilogue else ""
        try:
            from warpconv.codegen.resolution import resolve
        except ImportError:
            spec, command = None, None
        else:
            plan = resolve(request).plan
            spec, command = plan.spec, build_command(plan).removesuffix("PACK") + shlex.quote(str(self.path))
        misses = near_misses(self._manifest.records, shape, epilogue)
        near = "; it has this layer " + ", and ".join(misses) if misses else ""
        return KernelNotBuilt(f"the pack {self.path} has no kernel for {arch} that serves {shape}{steps} "
                              f"(it has kernels for {have}{near})", spec=spec, command=command)


def open_pack(path: str | os.PathLike[str]) -> Pack:
    """Open a pack, and verify all of it before anything in it is used.

    Parameters
    ----------
    path : path
        A directory or a zip that build_pack has made.

    Returns
    -------
    Pack
        Its kernels, to be served by any thread.

    Raises
    ------
    PackError
        It is missing, damaged, or of another schema; the message names what is wrong.
    """
    try:
        path = paths.absolute(path)
    except TypeError:
        raise ArgumentTypeError("a pack is named by its path", argument="path", value=path) from None
    tree = tree_of(path)
    manifest = read_manifest(tree, str(path))
    for record in manifest.records:
        read_files(tree, record, str(path))
    for sha256, size in digests(manifest.document.get("nodes", {})):
        array_bytes(tree, sha256, size, str(path))
    return Pack(path, tree, manifest)


def find_in_packs(request: Request, *, device: int | None, exact: bool = False) -> Kernel | None:
    """A kernel for the layer from the first pack of WARPCONV_PACK that has one, else None.

    A pack is opened and verified once, and again when it has changed. Raises PackError for one that is missing or
    damaged, and PtxTooNew where PTX for a newer driver is all there is and compiling is off.
    """
    settings = env.settings()
    too_new = None
    for path in settings.pack:
        try:
            kernel = _opened(path).find(request, device=device, exact=exact)
        except PtxTooNew as error:
            too_new = too_new or error
            _log.warning("%s", error)
            continue
        if kernel is not None:
            return kernel
    if too_new is not None and settings.disable_jit:
        raise too_new
    return None


def driver_version() -> tuple[int, int] | None:
    """The CUDA version that the driver is made for, None where it cannot be asked."""
    import ctypes

    from warpconv.runtime.devices.cuda.libcuda import libcuda
    number = ctypes.c_int()
    try:
        if libcuda().cuDriverGetVersion(ctypes.byref(number)) or not number.value:
            return None
    except (AttributeError, DeviceError):
        return None
    return number.value // 1000, number.value % 1000 // 10


def _device_arch(device: int | None) -> Arch | None:
    if device is None:
        return None
    from warpconv.runtime.devices.cuda import contexts
    return Arch.read(contexts.arch(device))


def _opened(path: Path) -> Pack:
    """The pack at ``path``, as it stands on the disk now."""
    tree = tree_of(path)
    file = path / MANIFEST if isinstance(tree, FolderTree) else path
    status = paths.status(file)
    if status is None:
        reason = paths.refusal(file) or f"it has no {MANIFEST}"
        raise PackError(f"the pack cannot be read: {reason}", argument="WARPCONV_PACK", value=str(path))
    state = (status.st_mtime_ns, status.st_size, status.st_ino)
    with _packs_lock:
        known = _packs.get(path)
        if known is None or known[0] != state:
            known = _packs[path] = (state, open_pack(path))
        return known[1]
