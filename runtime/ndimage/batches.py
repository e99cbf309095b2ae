"""SciPy's calls on lists of images of differing sizes: every pass of a call is one launch for all of them.

A call is planned once, for an image as large as the largest along each axis; what its passes do to each image is what
they do to one alone. Where no kernel for differing sizes serves a pass (docs/batches.md), or the call is captured into
a graph, it is done image by image.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError, UnsupportedSpec
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayView
from warpconv.runtime.call import ragged
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.call.place import resolve_device
from warpconv.runtime.call.ragged import Places, host_view
from warpconv.runtime.call.recording import recording

from . import converted, lists, weights
from .arguments import sequence
from .lines import Pass, divided, exact
from .lists import Images
from .planes import Image, Seen
from .target import Target, is_dtype, output_types
from .work import Extras, Passes, Work

_rank, _shape = operator.attrgetter("ndim"), operator.attrgetter("shape")
MOST_WHOLE = 49     # taps of a product that is done at once: beyond them, its factors are quicker


class Unserved(Exception):
    """No kernel for differing sizes does this; nothing of the caller's has been written."""


class Captured(Unserved):
    """The call becomes part of a graph, whose launches write to the caller's arrays."""


@dataclass(frozen=True)
class Own:
    """A filter for each image: float64, all of one shape (n, ...)."""

    taps: np.ndarray

    @property
    def shown(self) -> np.ndarray:
        """One that stands for all in a plan: the sums of the others are exact where its are."""
        flat = self.taps.reshape(len(self.taps), -1)
        broken = (flat != np.rint(flat)).any(1)
        return self.taps[int(broken.argmax() if broken.any() else np.abs(flat).sum(1).argmax())]


class Job:
    """What a call on a list does: ``call(input, output)`` on one image is ``one``."""

    def __init__(self, plan: Callable[..., Passes], arguments: tuple[Any, ...], extras: Extras,
                 one: Callable[[Any, Any, tuple[Any, ...]], Any]):
        self.plan, self.arguments, self.extras, self.one = plan, arguments, extras, one

    def __call__(self, values: Sequence[Any], output: Any) -> list[Any]:
        """The results, in the list's order: the caller's arrays, or new ones.

        Raises ArgumentError for no images, ArgumentTypeError for elements or places that are not alike, ShapeError for
        numbers of axes that are not, or outputs that do not fit; else what the call on one image raises. All of these
        come before anything is written.
        """
        lists.check_given(values, None if output is None or is_dtype(output) else output)
        images = lists.read(values)
        target = BatchTarget.of(output, images)
        own = self.arguments[0] if self.arguments and isinstance(self.arguments[0], Own) else None
        try:
            return self._at_once(images, target, own)
        except Unserved as why:
            if target.images is None or isinstance(why, Captured):
                return self.one_by_one(values, output)
        # a later image may be refused, or lie where an earlier one's result goes: all are made before any is written
        made = self.one_by_one(values, target.dtype.value)
        for each, found in zip(output, made):
            view = arrays.view(each, "output")
            stream = arrays.current_stream(view) if self.extras.stream is None else arrays.stream_handle(
                self.extras.stream)
            arrays.copy_into(view, found, stream or 0)
        return list(output)

    def _at_once(self, images: Images, target: BatchTarget, own: Own | None) -> list[Any]:
        image, extras = images.image, self.extras
        if recording.graph is not None:
            raise Captured
        if extras.algorithm not in ("auto", "ragged"):
            raise Unserved
        device = resolve_device(extras.device, images.like, _stack(len(images.shapes), max(1, image.shape[-1])))
        handle = None if extras.stream is None else arrays.stream_handle(extras.stream)
        if device is None:
            place: Place = Host()
            if handle is not None:
                raise ArgumentError("the CPU device has no streams", argument="stream", value=extras.stream,
                                    hint="leave it out")
        else:
            from .batch_gpu import Gpu
            place = Gpu(device, images.like, extras.stream, handle)
        arguments = self.arguments if own is None else (own.shown, *self.arguments[1:])
        passes = self.plan(image, target.planned, *arguments)
        with place:
            work = BatchWork(place.taken(images), target, extras, place, device)
            if own is not None:
                work.own = _of_pass(own, passes, self.arguments[-1])
            return list(work.do(passes))

    def one_by_one(self, values: Sequence[Any], output: Any) -> list[Any]:
        """The same by a call for each image; ``output`` may be a list of element types, too."""
        into = [output] * len(values) if output is None or is_dtype(output) else output
        head, *rest = self.arguments or (None,)
        told = [(head.taps[i], *rest) if isinstance(head, Own) else self.arguments for i in range(len(values))]
        return [self.one(value, each, arguments) for value, each, arguments in zip(values, into, told)]


@functools.lru_cache(maxsize=64)
def _stack(images: int, side: int) -> ConvShape:
    """About as much as a batch, for the estimate of how long it takes without a GPU."""
    return ConvShape(n=images, c=1, k=1, r=5, s=5, padding=2, h=side, w=side)


def for_each(images: Sequence[Any], filters: Any, axes: Any) -> bool:
    """Whether ``filters`` is a list of arrays, each of which may be a filter of such images: one for each, then."""
    if not isinstance(filters, (list, tuple)) or not filters or not images:
        return False
    rank = len(getattr(images[0], "shape", ()))
    named = None if axes is None else sequence(axes)
    ranks = {rank, rank if axes is None else 1 if named is None else len(named)}
    return set(map(type, filters)) == {np.ndarray} and set(map(_rank, filters)) <= ranks


def by_size(call: Callable[[Any, Any, Any], Any], images: Sequence[Any], filters: Sequence[np.ndarray],
            output: Any, taps_of: Callable[[Any], np.ndarray], dtype: Any, stream: Any) -> Any:
    """``call(images, filters, output)`` for the images whose filters have one size together, in the list's order.
    Raises ShapeError where there are not as many filters as images, and what ``taps_of`` does. ``dtype``, ``stream``:
    the call's."""
    if len(filters) != len(images):
        raise ShapeError("there are as many filters as images", argument="weights", value=len(filters),
                         hint=f"{len(images)}, or one filter for all")
    shapes = list(map(_shape, filters))
    if shapes.count(shapes[0]) == len(shapes):
        return call(images, Own(taps_of(filters)), output)
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, shape in enumerate(shapes):
        groups.setdefault(shape, []).append(i)
    parts, into = isinstance(output, (list, tuple)), output
    if parts and dtype is not None:
        _, names = converted.types_of_list(images, output)
        lists.alike("output", "element type", names)
        into = names[0]
    elif parts:     # all is checked before the first of them is written
        given = lists.where(images)
        target = BatchTarget.of(output, given)
        if lists.meet(target.images, given):
            raise ArgumentError("outputs share memory with the images, whose filters have several sizes",
                                argument="output", value=len(groups), hint="give them memory of their own, or none")
    made: list[Any] = [None] * len(images)
    for chosen in groups.values():
        found = call([images[i] for i in chosen], Own(taps_of([filters[i] for i in chosen])),
                     into if into is not output or not parts else [output[i] for i in chosen])
        for i, each in zip(chosen, found):
            made[i] = each
    return made if into is output else converted.write(output, made, stream)


def _of_pass(own: Own, passes: Passes, flip: bool) -> np.ndarray:
    """Each image's filter as the one pass of a correlation has it."""
    if len(passes.terms) != 1 or len(passes.terms[0]) != 1:
        raise Unserved      # of several planes
    taps = own.taps[(slice(None), *(slice(None, None, -1),) * (own.taps.ndim - 1))] if flip else own.taps
    return taps.reshape(len(taps), *passes.terms[0][0].taps.shape)


@dataclass(frozen=True)
class BatchTarget(Target):
    """Where a list's results go: the caller's ``arrays``, or new ones of an element type."""

    images: Images | None = None

    @classmethod
    def of(cls, output: Any, images: Images | Image, whole: bool = False) -> BatchTarget:
        """Raises ShapeError, ArgumentTypeError or ArgumentError for outputs that cannot be written."""
        assert isinstance(images, Images)
        if output is None or is_dtype(output):
            found = Target.of(output, images.image, whole)
            return cls(found.dtype)
        written = lists.outputs(output, output_types(images.like.dtype))
        if (written.like.kind, written.like.device) != (images.like.kind, images.like.device):
            raise ArgumentTypeError("outputs and input are not in one place", argument="output",
                                    value=written.like.kind.value, hint="arrays of input's library and device")
        if written.shapes.shape[1] != images.shapes.shape[1]:
            raise ShapeError("outputs have another number of axes than input", argument="output",
                             value=written.shapes.shape[1], hint=f"{images.shapes.shape[1]}")
        wrong = (written.shapes != images.shapes).any(1)
        if wrong.any():
            odd = int(wrong.argmax())
            raise ShapeError(f"output {odd} has another shape than image {odd}", argument="output",
                             value=tuple(written.shapes[odd].tolist()), hint=f"{tuple(images.shapes[odd].tolist())}")
        if written.like.is_device and (gaps := written.gaps).any():
            raise ArgumentError(f"output {gaps.argmax()} has gaps", argument="output",
                                value=tuple(written.places.strides[gaps.argmax()].tolist()),
                                hint="give contiguous arrays, or none and copy the results")
        lists.check_apart(*written.ends)
        return cls(written.like.dtype, output, None, images=written)

    @property
    def takes_results(self) -> bool:
        """Whether a kernel writes to the caller's arrays: those of a GPU; others are filled from the results."""
        return self.images is not None and self.images.like.is_device

    def overlaps(self, image: Image) -> bool:
        """Whether any output shares memory with any image."""
        if not self.takes_results:
            return False
        assert self.images is not None
        return lists.meet(self.images, image.array)


class Place:
    """Where a batch is computed. Inside of ``with`` its memory lives."""

    device: int | None = None

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *error: Any) -> None:
        """Give back what was taken."""

    def taken(self, images: Images) -> Images:
        """The images where kernels read them."""
        return images

    def room(self, like: Images, dtype: DType) -> Images:
        """Results on their way."""
        raise NotImplementedError

    def made(self, like: Images, dtype: DType) -> Images:
        """New images of the caller's library."""
        raise NotImplementedError

    def told(self, table: np.ndarray, filters: np.ndarray, dtype: DType) -> tuple[ArrayView, ArrayView]:
        """The table and the filters where kernels read them."""
        raise NotImplementedError

    def brought(self, results: Images) -> Sequence[Any]:
        """Results as arrays of the caller's."""
        return lists.parts(results)

    @property
    def queue(self) -> Any:
        return None


class Host(Place):
    """Host memory, on the CPU device."""

    def room(self, like: Images, dtype: DType) -> Images:
        return lists.made(like, dtype, 0)

    made = room

    def told(self, table: np.ndarray, filters: np.ndarray, dtype: DType) -> tuple[ArrayView, ArrayView]:
        return host_view(table.view(np.int32), DType.INT32), host_view(filters, dtype)


class BatchWork(Work):
    """A call at work on a list: arrays are Images, steps are launches."""

    def __init__(self, images: Images, target: BatchTarget, extras: Extras, place: Place, device: int | None):
        super().__init__(images.image, target, extras)
        self.place, self.device = place, device
        self.own: np.ndarray | None = None      # a filter for each image, in the place of the pass's

    def room(self, dtype: DType) -> int:
        own = dtype is self.target.dtype and not self.target.takes_results      # the sum made there may be the result
        return self._noted((self.place.made if own else self.place.room)(self.images[0].array, dtype))

    def finished(self, at: int) -> Any:
        target, results = self.target, self.images[at].array
        assert isinstance(target, BatchTarget)
        if target.takes_results:
            return target.array
        brought = self.place.brought(results)
        if target.array is None:
            return brought
        for each, found in zip(target.array, brought):
            each[...] = found
        return target.array

    def _noted(self, images: Images) -> int:
        self.images.append(images.image)
        return len(self.images) - 1

    def _factored(self, each: Pass, view: ArrayView, stored: DType) -> Kernel | None:
        if not each.lines or each.taps.size <= MOST_WHOLE or exact(each, view.dtype) or self.own is not None:
            return None
        layer = self._layer(each, view.dtype, DType.FLOAT32, stored, separable=True)
        try:
            return ragged.kernel_of(layer, self.device, each.steps, self.extras.algorithm)
        except UnsupportedSpec:
            return None

    def _layer(self, each: Pass, dtype: DType, weight_dtype: DType, stored: DType, *, separable: bool = False,
               upright: bool = False) -> ConvShape:
        how = Seen((), Layout.NCHW, 1, upright=upright)
        return ragged.layer_of(dtype, weight_dtype, stored, each.size(how), each.padding(how), each.border, each.cval,
                               self.cast, separable)

    def _apply(self, source: int, each: Pass, dtype: DType, target: int | None = None, adds: int | None = None) -> int:
        if each.is_volume:
            raise Unserved
        images: Images = self.images[source].array
        rows, columns, upright = _axes(images, each.axes)
        epilogue: tuple[str, ...] = ()
        kernel = each.kernel
        if kernel is not None:
            column, row = sorted(each.lines, key=lambda line: line.axis)
            filters = np.concatenate([column.taps, row.taps]).astype(np.float32)[None]
        else:
            each, epilogue = divided(each, images.like.dtype, dtype, self.target.whole)
            filters = self._filters(each, images.like.dtype)
        filter_dtype = DType.parse(filters.dtype.name)
        if kernel is None:
            layer = self._layer(each, images.like.dtype, filter_dtype, dtype, upright=upright)
            try:
                kernel = ragged.kernel_of(layer, self.device, (*epilogue, *each.steps), self.extras.algorithm)
            except UnsupportedSpec as error:
                raise Unserved from error
        at, written = self._written(target, dtype, images)
        added = None if adds is None else self.images[adds].array.places
        table, tiles = ragged.table_of(kernel, _lifted(images.shapes), (rows, columns), _lifted_places(images.places),
                                       _lifted_places(written.places), None if added is None else _lifted_places(added),
                                       filters=len(filters) > 1)
        if tiles > ragged.MOST_ELEMENTS or int(images.shapes.max()) > ragged.MOST_ELEMENTS:
            raise Unserved
        told, weight = self.place.told(table, filters, filter_dtype)
        ragged.run(kernel, table, tiles, weight, told, images.places, written.places, added, self.place.queue)
        return at

    def _written(self, target: int | None, dtype: DType, like: Images) -> tuple[int, Images]:
        """The images that a pass writes, and their number."""
        if target is None:
            made = self.place.made(self.images[0].array, dtype)
            return self._noted(made), made
        if target < 0:
            assert isinstance(self.target, BatchTarget) and self.target.images is not None
            return target, self.target.images
        return target, self.images[target].array

    def _filters(self, each: Pass, dtype: DType) -> np.ndarray:
        """The pass's filter, or those of all images, as elements: (n, taps)."""
        found = weights.elements_of(each, dtype, self.own)
        return found.reshape(1 if self.own is None else len(self.own), -1)


def _axes(images: Images, axes: tuple[int, ...]) -> tuple[int, int, bool]:
    """The axes that are the rows and columns of planes, and whether a filter of one axis goes down the rows. Beside it
    stands the longest of the others."""
    rank = images.shapes.shape[1]
    if rank == 1:
        return 0, 1, False
    if len(axes) == 2:
        return axes[0], axes[1], False
    most = images.shapes.max(0)
    other = max((axis for axis in range(rank) if axis != axes[0]), key=lambda axis: (most[axis], axis))
    return min(axes[0], other), max(axes[0], other), axes[0] < other


def _lifted(shapes: np.ndarray) -> np.ndarray:
    """Shapes (or strides) of rows as those of images of one row."""
    return np.concatenate([np.ones_like(shapes), shapes], 1) if shapes.shape[1] == 1 else shapes


def _lifted_places(places: Places) -> Places:
    return replace(places, strides=_lifted(places.strides)) if places.strides.shape[1] == 1 else places
