"""A layer of a pack as a callable for engines: input in, output out, filter and bias the pack's or the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentError, KernelNotBuilt, ShapeError
from warpconv.codegen.hardware import DEFAULT_ARCH, Arch, Hardware
from warpconv.codegen.request import Request
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, KernelSpec, Operation
from warpconv.runtime import arrays, forks
from warpconv.runtime.call.filter import Filter, Shared
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.call.volume import LAYOUTS
from warpconv.runtime.call.watched import uncompiled
from warpconv.runtime.models.geometry import SAME, same_pads

from .format import Tree
from .nodes import NodeRecord, read_array

if TYPE_CHECKING:
    from .pack import Pack


class PackConv(Shared):
    """One layer of a pack. ``Pack.conv`` makes it; any thread may call it.

    Attributes
    ----------
    name, node : str
        The layer's name in the pack, and its model's; the same where it is of no model.
    shape : ConvShape
        The layer as it was built; a call may have another batch, height and width.
    epilogue : tuple of Epilogue
        What the kernel does to each output.
    record : NodeRecord or None
        The model's names of the arrays that it reads and writes, and what is folded into it.
    """

    AGAIN = "keep the pack's path and the layer's name: open_pack(path).conv(name) where it is loaded"

    def __init__(self, pack: Pack, name: str, shape: ConvShape, spec: KernelSpec, record: NodeRecord | None, tree: Tree,
                 device: str):
        self.name, self.shape, self.epilogue, self.record = name, shape, tuple(spec.epilogue), record
        self.node = name if record is None else record.node
        self._pack, self._spec, self._tree, self._device = pack, spec, tree, device
        self._kernels: dict[int | None, Kernel] = {}
        self._filters: dict[int | None, Any] = {}
        self._biases: dict[int | None, Any] = {}
        self._lock = forks.rlock()

    def __repr__(self) -> str:
        held = ", with its filter" if self.holds("weight") else ""
        return f"<warpconv.PackConv {self.node}: {self.shape}{held}>"

    @property
    def transposed(self) -> bool:
        """Whether it is a transposed layer: ``shape`` is then the layer whose data gradient it computes."""
        return self._spec.operation is Operation.DATA_GRADIENT

    def holds(self, name: str) -> bool:
        """Whether the pack has its ``weight``, or its ``bias``."""
        return self.record is not None and name in self.record.arrays

    def array(self, name: str) -> Any:
        """The pack's ``weight`` or ``bias`` with all that was folded into it, as a NumPy array.

        Raises
        ------
        ArgumentError
            The pack has none.
        PackError
            Its files have changed since the pack was opened.
        """
        if self.record is None or name not in self.record.arrays:
            raise ArgumentError(f"the pack has no {name} of this layer", argument=name, value=self.node,
                                hint="give it at the call, or build the pack with --weights from a model that has it")
        return read_array(self._tree, self.record.arrays[name], str(self._pack.path))

    def kernel(self, x: Any = None) -> Kernel:
        """The kernel that serves an array like ``x``, or, without one, the device that was asked for.

        Raises
        ------
        KernelNotBuilt
            The pack has no kernel of this layer for the device.
        """
        from warpconv.runtime.call.place import resolve_device
        return self._kernel(resolve_device(self._device, None if x is None else arrays.view(x, "x"), self.shape))

    def prepare(self, weight: Any, *, device: str | None = None, stream: Any = None) -> Filter | Any:
        """A filter in the form that the kernel takes, made once for many calls of this layer.

        Parameters
        ----------
        weight : array, (K, C/groups, R, S), of volumes (K, C/groups, T, R, S)
            With what the layer folds already in it (``record.folded``); one axis less for a layer of one.
        device : str, optional
            As in Pack.conv; that one if None.
        stream : optional
            As in Kernel.prepare.

        Returns
        -------
        Filter
            To be given as ``weight``; of a transposed layer the array itself, whose kernels take it as it is.
        """
        from warpconv.runtime.call.place import resolve_device
        planar = self._planar(weight)
        if self.transposed:
            return planar
        ordinal = resolve_device(device or self._device, arrays.view(planar, "weight"), self.shape)
        return self._kernel(ordinal).prepare(planar, stream=stream, separable=False)

    @uncompiled
    def __call__(self, x: Any, weight: Any = None, bias: Any = None, *, residual: Any = None, out: Any = None,
                 layout: Layout | str = Layout.NCHW, stream: Any = None) -> Any:
        """Compute the layer.

        Parameters
        ----------
        x : array, (N, C, H, W), of volumes (N, C, D, H, W)
            Of the layer's element type, of any library that conv2d takes; (N, C, W) for a layer of one spatial axis.
        weight : array or Filter, optional
            In the pack's place: as ``prepare`` takes it, with what the layer folds already in it.
        bias : array, (K,), optional
            In the pack's place.
        residual : array like the output, optional
            What the layer adds, where its epilogue has one.
        out : array, optional
            Where the result goes.
        layout : Layout or str
            The order of the axes of x, residual and out; of volumes 'NCDHW' (or 'NCHW') or 'NDHWC' ('NHWC').
        stream : optional
            As in Kernel.__call__.

        Returns
        -------
        array
            ``out`` if given, else a new array of x's library.

        Raises
        ------
        ShapeError, ArgumentError, ArgumentTypeError
            Arrays that do not fit, and a filter or bias that neither the pack has nor the call gives.
        KernelNotBuilt
            The pack has no kernel of this layer for x's device.
        """
        from warpconv.runtime.call.place import resolve_device
        volume = self.shape.is_volume
        order = Layout.parse(LAYOUTS.get(layout, layout) if volume and isinstance(layout, str) else layout)
        line = not volume and getattr(x, "ndim", 4) == 3
        if line and self._axes != 1:
            raise ShapeError("the layer has two spatial axes", argument="x", value=tuple(x.shape),
                             hint="(N, C, H, W); of one image x[None]")
        if line and order is not Layout.NCHW:
            raise ArgumentError("arrays of one spatial axis have channels second", argument="layout", value=order.value,
                                hint="leave it out")
        x, residual, out = (None if array is None else self._planar(array) for array in (x, residual, out))
        view = arrays.view(x, "x")
        self._check_pads(view.shape[1:-1] if order is Layout.NHWC else view.shape[2:])
        ordinal = resolve_device(self._device, view, self.shape)
        kernel = self._kernel(ordinal)
        given = self._weight(ordinal, view, stream) if weight is None else (
            weight if isinstance(weight, Filter) else self._planar(weight))
        added = bias if bias is not None or Epilogue.BIAS not in self.epilogue else self._bias(view, stream)
        if self.transposed:
            if residual is not None:
                raise ArgumentError("a transposed layer adds no residual", argument="residual", hint="leave it out")
            made = _transposed(kernel, self._shape_for(view, order), order, x, given, added, out, stream)
        else:
            made = kernel.for_axes(order)(x, given, added, residual=residual, out=out, stream=stream)
        return made[:, :, 0] if line else made

    @property
    def _axes(self) -> int:
        """Spatial axes of the arrays."""
        if self.record is not None:
            return self.record.axes
        return 3 if self.shape.is_volume else 1 if self.shape.h == self.shape.r == 1 else 2

    def _check_pads(self, sizes: Sequence[int]) -> None:
        """Raises ShapeError for an input whose padding in the model is another than the one that was built."""
        shape, pads = self.shape, "" if self.record is None else self.record.pads
        own = shape.outputs if self.transposed else shape.image
        if not pads or len(sizes) != len(own) or tuple(sizes) == tuple(own):
            return
        if pads in SAME and same_pads(pads, sizes, shape.stride, shape.taps, shape.dilation) == list(shape.padding):
            return
        built = " x ".join(map(str, own))
        raise ShapeError(f"the model pads an input of this size otherwise than one of {built}, which was built",
                         argument="x", value=tuple(sizes),
                         hint="build the model with these sizes (dims=, --dim), or feed the size it was built for")

    def _planar(self, array: Any) -> Any:
        """An array of one spatial axis as one of a row."""
        return array[:, :, None] if not self.shape.is_volume and getattr(array, "ndim", None) == 3 else array

    def _kernel(self, ordinal: int | None) -> Kernel:
        with self._lock:
            if ordinal not in self._kernels:
                from warpconv.runtime.devices.cuda import contexts
                arch = DEFAULT_ARCH if ordinal is None else Arch.read(contexts.arch(ordinal))
                # of single pixels the kernel may be one in the other order
                layer = replace(self.shape, layout=self._spec.layout)
                request = Request(layer=layer, hardware=Hardware.of(arch), epilogue=self.epilogue,
                                  numerics=self._spec.numerics, operation=self._spec.operation)
                found = self._pack.find(request, device=ordinal) or self._pack.find(
                    replace(request, algorithm=self._spec.algorithm), device=ordinal)
                if found is None:
                    raise KernelNotBuilt(f"the pack {self._pack.path} has no kernel of {self.node} that runs on {arch}",
                                         command=f"warpconv build MODEL --arch {arch} -o {self._pack.path}")
                self._kernels[ordinal] = found
            return self._kernels[ordinal]

    def _weight(self, ordinal: int | None, like: arrays.ArrayView, stream: Any) -> Any:
        """The pack's filter as the kernel takes it, made at the first call on a device; of a transposed layer where the
        input is."""
        place = like.device if self.transposed else ordinal
        with self._lock:
            if place not in self._filters:
                host = self.array("weight")
                self._filters[place] = (_beside(host, self._spec.w_dtype, like, stream) if self.transposed else
                                        self._kernel(ordinal).prepare(host, stream=stream, separable=False))
            return self._filters[place]

    def _bias(self, like: arrays.ArrayView, stream: Any) -> Any:
        with self._lock:
            if like.device not in self._biases:
                self._biases[like.device] = _beside(self.array("bias"), self._spec.bias_dtype, like, stream)
            return self._biases[like.device]

    def _shape_for(self, x: arrays.ArrayView, order: Layout) -> ConvShape:
        """The layer of a transposed call: as many more rows and columns as the built one has over its input's."""
        n, channels, *image = order.logical(x.shape)
        built = self.shape
        if channels != built.k:
            raise ShapeError(f"this layer has {built.k} input channels, x has {channels}", argument="x", value=x.shape,
                             hint=f"an input like {built.output_shape}")
        sizes = dict(zip("dhw"[-len(built.image):], (whole + (size - was) * step for whole, size, was, step in zip(
            built.image, image, built.outputs, built.stride))))
        return replace(built, n=n, layout=self._spec.layout, **sizes)    # of single pixels the kernel's order


def _transposed(kernel: Kernel, *call: Any) -> Any:
    from warpconv.runtime.call.transposed import run_transposed
    return run_transposed(kernel, *call)


def _beside(host: Any, dtype: DType, like: arrays.ArrayView, stream: Any) -> Any:
    """A host array on the device where ``like`` is, an array of its library."""
    if like.device is None:
        return host
    from warpconv.runtime.devices.cuda import contexts, memory, streams
    queue = arrays.stream_handle(stream) if stream is not None else arrays.current_stream(like) or 0
    made = arrays.empty(like, host.shape, dtype, stream=queue)
    with contexts.activate(like.device, like.pointer):
        memory.copy_in(host, arrays.view(made, "bias").pointer, queue)
        streams.synchronize(queue)
    return made
