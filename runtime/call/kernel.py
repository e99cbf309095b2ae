"""Kernel: a specialised layer on one device, ready to call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from warpconv.codegen.border import border_value
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.pitch import Pitch
from warpconv.codegen.plan import KernelPlan, Launch, Program, Role
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation
from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayView, axes

from . import pitch, separable as factors_of, signatures
from .checks import (MOST_LAYERS, Call, Misaligned, check_address, check_bias, check_out, check_residual, check_weight,
                     contiguous, in_order, layer_of, name_of, place, same_memory, written_in_place)
from .filter import Filter, Prepared, Shared
from .quick import Entry, QuickCalls
from .recording import recording
from .watched import is_compiled, uncompiled


class Backend(Protocol):
    """A kernel's compiled code on one device."""

    device: str          # "cpu" or "cuda:N"
    ordinal: int | None  # None: host memory

    def prepare(self, weight: ArrayView, queue: Any) -> Prepared: ...

    def run(self, call: Call, prepared: Prepared | None, queue: Any) -> None: ...

    def for_program(self, program: Program) -> Backend: ...

    def quick(self, shape: ConvShape, operands: dict[str, ArrayView], *, by_filter: bool) -> Any:
        """A layer ready to be launched with other addresses (``quick.Launch``); None where that cannot be."""

    def alignment(self, name: str, view: ArrayView) -> int:
        """Bytes that an operand's address must be a multiple of to be used where it is."""


class Kernel(Shared):
    """A convolution specialised to a class of layers (any N, H and W) on one device.

    ``kernel(input, weight, bias=None, *, residual=None, out=None, stream=None)`` computes it: input with its axes in
    the order ``axes``, (N, C, H, W) or (N, H, W, C), weight (K, C/groups, R, S) or a Filter, bias (K,), residual of the
    output's shape, of the spec's element types. In memory input, residual and output have the order of the spec's
    layout; others, and arrays with gaps, are copied (by a kernel whose spec is ``pitched`` only what has other gaps
    than between rows, planes and images). ``out`` may be the residual itself, to add in place. The
    result is ``out`` or a new array of the input's library, its axes in the same order. On a GPU the work is queued on
    ``stream`` (default: the stream that the input's library is on); for NumPy arrays the call returns when the result
    is there. Copies (``copy.deepcopy`` of what holds one) are the kernel itself; it is not pickled.
    """

    def __init__(self, spec: KernelSpec, program: Program, backend: Backend, *, source: str, report: Any = None,
                 plan: KernelPlan | Callable[[], KernelPlan] | None = None, axes: Layout | None = None,
                 factored: Callable[[], Kernel | None] | None = None, padding_value: float | None = None):
        self.spec = spec
        self.program = program
        self.source = source
        self.report = report      # compilers.Compiled on a GPU: registers, spills, shared memory, log
        self._plan = plan
        self.axes = axes or spec.layout
        # of a border 'constant'; None where nobody has said it yet, and the kernel cannot be called before
        self.padding_value = padding_value if program.border is not None else spec.padding_value
        self._backend = backend
        self._factored = factored # makes the kernel of this layer's separable filters; None where none is wanted
        self._to_memory, self._to_caller = _orders(self.axes, spec.layout, spec.rank)
        self.aligned = tuple(a for a in program.arguments if a.is_pointer and a.demand)
        self._quick = QuickCalls(backend, program)
        self._entries = self._quick.entries
        self._siblings: dict[str, Kernel] = {}
        self._bordered: dict[float, Kernel] = {}
        self._shapes: dict[tuple, ConvShape] = {}
        self._x, self._w, self._bias, self._residual, self._y = (name_of(program, role) for role in (
            Role.INPUT, Role.WEIGHT, Role.BIAS, Role.RESIDUAL, Role.OUTPUT))

    @functools.cached_property
    def plan(self) -> KernelPlan | None:
        """Its plan, which is made now where an earlier process had made it; None for a kernel served from a pack."""
        return self._plan() if callable(self._plan) else self._plan

    @property
    def backend(self) -> Backend:
        """Its compiled code on its device."""
        return self._backend

    @property
    def device(self) -> str:
        """"cpu" or "cuda:N"."""
        return self._backend.device

    def __call__(self, input: Any, weight: Any, bias: Any = None, *, residual: Any = None, out: Any = None,
                 stream: Any = None) -> Any:
        """Raises ShapeError, ArgumentError or ArgumentTypeError before anything is launched or written."""
        if is_compiled():
            return _apart(self, input, weight, bias, residual=residual, out=out, stream=stream)
        if type(weight) is not Filter:
            # calls with a Filter are remembered by None in its place
            entry = None if weight is None else self._entries.get(
                signatures.sign_call(input, weight, bias, residual, out))
            if entry is not None and recording.graph is None:
                done = entry.repeat(input, weight, bias, residual, out, stream)
                if done is not None:
                    return done
            return self._call(input, weight, bias, residual, out, stream)
        if weight.kernel._backend is not self._backend:
            return self._call(input, weight, bias, residual, out, stream)       # which refuses it
        if weight.factored is not None:
            try:
                factored = weight.factored.kernel.for_axes(self.axes)
                if factored.padding_value != self.padding_value:
                    factored = factored.for_border(self.padding_value)
                return factored(input, weight.factored, bias, residual=residual, out=out, stream=stream)
            except (Misaligned, ShapeError):    # sizes or addresses that its plan does not take: the whole filter
                pass
        entry = self._entries.get(signatures.sign_call(input, None, bias, residual, out))
        if entry is not None and recording.graph is None:
            done = entry.repeat(input, None, bias, residual, out, stream, weight.prepared)
            if done is not None:
                return done
        return self._call(input, weight, bias, residual, out, stream)

    def remembered(self, signed: Any) -> Entry | None:
        """What is remembered of a call of this kernel by the ``signatures`` of its arrays."""
        return self._quick.entries.get(signed)

    def repeating(self, values: dict[str, Any], operands: dict[str, ArrayView], shape: ConvShape) -> Entry | None:
        """What repeats a call of a gradient that was just done, of the ``values`` of its arguments (what it made among
        them); None where that cannot be."""
        return self._quick.entry(values, operands, shape)

    def _call(self, input: Any, weight: Any, bias: Any, residual: Any, out: Any, stream: Any) -> Any:
        """A call with everything checked; what passes is remembered for the quick way."""
        spec, handle, given = self.spec, self.handle_of(stream), out
        if spec.operation is not Operation.FORWARD:
            raise ArgumentError("this kernel computes a gradient", argument="input", value=spec.operation.value,
                                hint="conv2d_input, conv2d_weight and conv2d_bias take its arrays")
        x = arrays.view(input, "input", dtypes=(spec.dtype,), ndim=spec.rank, stream=handle)
        self.check_place(x, "input")
        x = self._stored(x)
        pitches = self._pitches(x, out, residual) if spec.pitched else (None, None)
        shape = self._shapes.get((x.shape, *pitches)) or self._layer(x.shape, *pitches)
        prepared, w = self._weight(weight, x, handle)
        b = check_bias(spec, bias, x, handle)
        r = check_residual(spec, residual, shape, self.axes, x, handle)
        inputs = {"input": x, "weight": w, "bias": b, "residual": r}
        y = target = None if out is None else check_out(out, shape, self.axes, inputs)
        if recording.graph is not None:
            recording.graph.check(stream, {**inputs, "out": y}, pitches)
        queue = self.queue_of(stream, handle, x)
        # all is checked but addresses: from here on memory is taken, then work queued
        operands = {self._x: x if pitches[0] else contiguous(input, x, "input", self._to_memory)}
        ordered = None if w is None else in_order(self.program, w)
        if w is not None:
            operands[self._w] = ordered or contiguous(weight, w, "weight")
        if b is not None:
            operands[self._bias] = contiguous(bias, b, "bias")
        if r is not None:
            operands[self._residual] = r if pitches[1] else contiguous(residual, r, "residual", self._to_memory)
        copied = y is not None and not written_in_place(y, shape)
        if y is None or copied:
            like = x if target is None else target
            out = arrays.empty(like, spec.layout.stored(shape.output_shape), spec.y_dtype, order=self._to_caller,
                               stream=0 if queue is None else queue.handle)
            y = self._stored(arrays.view(out, "out"))
        operands[self._y] = y
        if x.is_device:         # what comes from the host is copied to memory that is aligned
            for argument in self.aligned:
                if argument.name in operands:
                    check_address(argument, operands[argument.name].pointer)
        self._backend.run(Call(shape, operands, ordered is not None), prepared, queue)
        if copied:
            arrays.copy_into(target, out, 0 if queue is None else queue.handle)
            out = given
        elif recording.graph is not None:
            recording.graph.add(operands.values(), prepared)
        else:
            self._quick.learn(input, weight if w is not None else None, bias, residual, given, out, operands,
                              shape, ordered is not None)
        return out

    def for_axes(self, order: Layout) -> Kernel:
        """The same kernel for arrays whose axes are in this order; the same in memory."""
        if order is self.axes:
            return self
        found = self._siblings.get(order.value)
        if found is None:
            made = self._sibling(axes=order, factored=self._factored)
            made._siblings[self.axes.value] = self
            found = self._siblings.setdefault(order.value, made)
        return found

    def for_border(self, padding_value: float) -> Kernel:
        """The same kernel for layers with another value of the border 'constant', which is an argument of its launches:
        nothing is planned or compiled, and filters that one of them prepared serve all.

        Raises ArgumentError where the value is of another kind than the kernel's: 0, or one that its arithmetic or, if
        it keeps rows in the input's type, this type does not have.
        """
        value = border_value(padding_value)
        if not self.spec.takes_border(value):
            raise ArgumentError("this kernel was made for other borders", argument="padding_value", value=padding_value,
                                hint=f"specialize() a kernel for it; this one is {self.spec}")
        if value == self.padding_value or self.program.border is None:
            return self
        found = self._bordered.get(value)
        if found is None:
            if len(self._bordered) > MOST_LAYERS:
                self._bordered.clear()
            made = self._sibling(axes=self.axes, factored=self._factored, padding_value=value)
            found = self._bordered.setdefault(value, made)
        return found

    def recognising(self, factored: Callable[[], Kernel | None]) -> Kernel:
        """The same kernel, whose prepare() sees whether a filter is separable; ``factored`` makes the kernel for those,
        or gives None where that does not pay."""
        return self._sibling(axes=self.axes, factored=factored)

    def _sibling(self, **changes: Any) -> Kernel:
        return Kernel(self.spec, self.program, self._backend, source=self.source, report=self.report, plan=self._plan,
                      **{"padding_value": self.padding_value, **changes})

    @uncompiled
    def prepare(self, weight: Any, *, stream: Any = None, separable: bool | None = None) -> Filter:
        """Copy, reorder or move ``weight`` once; the Filter is accepted in its place by this kernel.

        ``separable`` None: a weight in host memory that is a column times a row, to a few float32 roundings, is seen
        to be that by kernels that were made for a layer without naming algorithm, plan or plan values, and calls
        take the layer's separable kernel, which is built here; False: never; True: demanded. The kernel of a separable
        layer takes factors (K, 1, 1, R + S) or, from the host, whole filters (K, 1, R, S).

        Raises ShapeError or ArgumentTypeError where it does not fit, ArgumentError where ``separable`` is demanded of
        what is not.
        """
        handle = self.handle_of(stream)
        view = arrays.view(weight, "weight", dtypes=self._weight_types, ndim=self.spec.rank, stream=handle)
        factors = factors_of.as_factors(self.spec, weight, view)
        if factors is not None:
            made = self.prepare(factors.weight, stream=stream)
            made.separable = str(factors)
            return made
        view = arrays.view(weight, "weight", dtypes=(self.spec.w_dtype,), stream=handle)
        check_weight(self.spec, view)
        self.check_place(view, "weight")
        given, view = view, contiguous(weight, view, "weight")
        made = Filter(self, self._backend.prepare(view, self.queue_of(stream, handle, view)), view.shape)
        if self._factored is not None or separable is not None:
            self._factor(made, weight, given, stream, separable)
        return made

    def _factor(self, made: Filter, weight: Any, view: ArrayView, stream: Any, separable: bool | None) -> None:
        """Give a Filter its factors, if it has them and they pay."""
        factors = factors_of.recognised(self.spec.example_shape(), weight, view, separable)
        if factors is None:
            return
        kernel = None if self._factored is None else self._factored()
        if kernel is None and separable:
            raise ArgumentError("this kernel has no separable one beside it", argument="separable", value=True,
                                hint="specialize(shape) without an algorithm, or of ConvShape(separable=True)")
        if kernel is not None:
            made.factored = kernel.prepare(factors.weight, stream=stream)
            made.separable = str(factors)

    @property
    def _weight_types(self) -> tuple[Any, ...]:
        """Elements that a weight may have: a separable kernel's factors are float32, whole filters like the input's."""
        spec = self.spec
        return (spec.w_dtype,) if not spec.separable else tuple(dict.fromkeys((spec.w_dtype, spec.dtype)))

    def workspace_bytes(self, shape: ConvShape) -> int:
        """Bytes of workspace that a call of ``shape`` takes from the pool."""
        return self.program.workspace_bytes(shape)

    def only(self, step: int | None) -> Kernel:
        """This kernel's code for one step of its program alone, or (None) for its filter's preparation: to time it.

        A workspace that another step would have filled holds whatever memory the pool gives. Raises ArgumentError where
        the program has no such step.
        """
        program, preparation = self.program, self.program.preparation
        if step is None:
            if preparation is None or not preparation.steps:
                raise ArgumentError("this kernel's filters are not transformed", argument="step",
                                    hint="the number of a step")
            last = len(preparation.steps) - 1
            part = replace(program, steps=preparation.steps, preparation=None,
                           workspaces=(replace(preparation.buffer, first_step=0, last_step=last),))
        elif 0 <= step < len(program.steps):
            alone = program.steps[step]
            if isinstance(alone, Launch):
                alone = replace(alone, early=False)         # what the stream has before it is another's
            part = replace(program, steps=(alone,), workspaces=tuple(
                replace(w, first_step=0, last_step=0) for w in program.workspaces
                if w.first_step <= step <= w.last_step))
        else:
            raise ArgumentError("the program has no such step", argument="step", value=step,
                                hint=f"0 to {len(program.steps) - 1}")
        return Kernel(self.spec, part, self._backend.for_program(part), source=self.source, report=self.report,
                      axes=self.axes, padding_value=self.padding_value)

    def __repr__(self) -> str:
        return f"<warpconv.Kernel {self.spec.name} on {self.device}: {self.spec}>"

    def _layer(self, x: tuple[int, ...], *pitches: Pitch | None) -> ConvShape:
        """The layer for an input of shape ``x`` (in memory order) and the gaps of input and output, remembered."""
        if self.padding_value is None:
            raise ArgumentError("the value of this kernel's border is not known", argument="padding_value",
                                hint="kernel.for_border(value)")
        shape = layer_of(self.spec, x, self.program, pitches, self.padding_value)
        if len(self._shapes) > MOST_LAYERS:
            self._shapes.clear()
        self._shapes[(x, *pitches)] = shape
        return shape

    def _pitches(self, x: ArrayView, out: Any, residual: Any) -> tuple[Pitch | None, Pitch | None]:
        """The gaps of input and output that the kernel takes as they are; an array with others is copied or refused."""
        y, r = (None if value is None else self._stored(arrays.view(value, name, ndim=4))
                for value, name in ((out, "out"), (residual, "residual")))
        layout = self.spec.layout
        return pitch.input_pitch(x, layout), pitch.output_pitch(y, r, layout)

    def _weight(self, weight: Any, x: ArrayView, handle: int | None) -> tuple[Prepared | None, ArrayView | None]:
        if isinstance(weight, Filter):
            if weight.kernel._backend is not self._backend:
                raise ArgumentError("this Filter was prepared by another kernel", argument="weight",
                                    hint="kernel.prepare(weight) of the kernel that is called")
            return weight.prepared, None
        view = arrays.view(weight, "weight", dtypes=(self.spec.w_dtype,), ndim=self.spec.rank, stream=handle)
        check_weight(self.spec, view)
        same_memory(view, x, "weight")
        return None, view

    def _stored(self, view: ArrayView) -> ArrayView:
        """An input or output with its axes in memory order."""
        return view if self._to_memory is None else view.transposed(self._to_memory)

    def handle_of(self, stream: Any) -> int | None:
        """The handle of a stream that the caller named."""
        if stream is None:
            return None
        if self._backend.ordinal is None:
            raise ArgumentError("the CPU device has no streams", argument="stream", value=stream, hint="leave it out")
        return arrays.stream_handle(stream)

    def queue_of(self, stream: Any, handle: int | None, x: ArrayView) -> Any:
        """The stream to work on: the caller's, else the one that the input's library is on. None on the CPU device."""
        if self._backend.ordinal is None:
            return None
        from warpconv.runtime.devices.cuda.backend import Queue
        if recording.graph is not None:
            return Queue(recording.graph.join(self._backend.ordinal, x.pointer), True)
        if handle is None:
            return Queue((arrays.current_stream(x) or 0) if x.is_device else 0)
        return Queue(handle, True, stream if type(stream).__module__.startswith("pycuda") else None)

    def check_place(self, view: ArrayView, argument: str) -> None:
        """Raises ArgumentTypeError where an array is on another GPU than this kernel."""
        if view.is_device and view.device != self._backend.ordinal:
            raise ArgumentTypeError(f"{argument} is {place(view.device)} and this kernel was made for {self.device}",
                                    argument=argument, hint=f"specialize(..., device='cuda:{view.device}')")


_apart = uncompiled(Kernel.__call__)     # a decorator would take longer than the question does


def _orders(given: Layout, memory: Layout, rank: int) -> tuple[Any, Any]:
    """How an array's axes are turned to memory order, and back."""
    return axes.order(given, memory, rank), axes.order(memory, given, rank)
