"""An image in a file, filtered chunk by chunk into another file: what ``warpconv filter`` does with large images."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import math
import os
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import ArgumentError, DeviceError
from warpconv.codegen.version import VERSION
from warpconv.runtime.call.separable import factorise
from warpconv.runtime.ndimage.lines import Line, Pass
from warpconv.runtime.ndimage.planes import Image
from warpconv.runtime.ndimage.work import MOST_AT_ONCE, Extras, Passes

from . import places, sizes
from .arrays import Chunked
from .outputs import Part, check_output, stored_sizes
from .packages import package
from .sources import Source

SMALLEST_CHUNK = 4 * 2**20  # bytes: a smaller one is filtered and stored in less time than Dask takes for it
CHUNKS_A_THREAD = 4         # at least: some are read while others are filtered and stored, and none waits for the last
LARGEST_UNIT = 4096         # rows or columns that input and output may ask for together
STORE = "warpconv-store-"
MOST_THREADS = 32           # zarr decodes and encodes with as many
GPU_THREADS = 2 * places.LANES     # of a worker with a GPU: as many read and store as are on it
Advance = Callable[[int, int], None]        # how many chunks are done, of how many


@dataclass(frozen=True, kw_only=True)
class FileFilter:
    """``taps`` (R, S) over each plane of an image in a file, as conv2d's padding="same" puts them; then ``steps`` of an
    epilogue; stored as ``dtype``, rounded to nearest and limited, or the input's. Without taps the chunks are copied.

    ``axes``: rows and columns, counted from the first or the last; None: those that the file names Y and X, else the
    last two. ``memory``: bytes that all chunks at work may take. ``workers``: processes on this machine; 0: threads of
    this one. ``scheduler``: address of a cluster's, in place of both.
    """

    input: str
    output: str
    taps: np.ndarray | None
    border: Border = Border.REFLECT
    border_value: float = 0.0
    steps: tuple[str, ...] = ()
    dtype: str | None = None
    axes: tuple[int, int] | None = None
    device: str = "auto"
    algorithm: str = "auto"
    memory: int | str = "2G"
    threads: int | None = None
    workers: int = 0
    scheduler: str | None = None


@dataclass(frozen=True)
class Filtered:
    """What was done: the image, its chunks and how many of them were there from a run that was stopped."""

    shape: tuple[int, ...]
    dtype: str
    stored_as: str
    chunk: tuple[int, ...]
    chunks: int
    resumed: int
    seconds: float


def filter_file(how: FileFilter, advance: Advance | None = None) -> Filtered:
    """Filter a file into another. ``advance`` is told about chunks that are done.

    Raises FileError for a file that is not read or written (a part of it, a full disk), ArgumentError, ShapeError,
    ArgumentTypeError and UnsupportedSpec for what is not filtered, DeviceError where workers are lost again and again,
    ToolNotFound without Dask, zarr or tifffile. What was written before stays in a folder beside the output, and the
    same call goes on from there.
    """
    start = time.perf_counter()
    source = Source(how.input, "PHOTO")
    check_output(how.output, how.input, "OUTPUT")
    part = Part(how.output, "OUTPUT")
    chunks = _chunks(how, source)
    made = _filtered(how, source, chunks)
    stored_as = str(made.dtype)
    with part.held():
        try:
            done = part.start(_about(how, source, chunks, stored_as), source.about, made.dtype)
            tasks = _tasks(made, part, done)
            count = math.prod(map(len, chunks))
            (advance or _nobody)(count - len(tasks), count)
            _run(tasks, how, count, advance or _nobody)
            part.finish()
        except BaseException:
            part.discard()
            raise
        finally:
            source.close()
    return Filtered(source.shape, source.dtype.name, stored_as, tuple(each[0] for each in chunks), count,
                    count - len(tasks), time.perf_counter() - start)


def plan(image: Image, dtype: Any, taps: np.ndarray, axes: tuple[int, int], border: Border, value: float,
         steps: tuple[str, ...]) -> Passes:
    """The passes of a picture's filter: rounded to nearest once, at the end. A large filter that is a product of a
    column and a row is done by these."""
    if min(taps.shape) > 1 and taps.size > MOST_AT_ONCE and not (border is Border.CONSTANT and value):
        found = factorise(taps[None, None])
        if found.within:
            both = np.split(found.weight.ravel().astype(np.float64), [len(taps)])
            lines = [Line(line, axis, (len(line) - 1) // 2 - len(line) // 2, border, value)
                     for line, axis in zip(both, axes)]
            return Passes([[Pass.product(*lines)]], steps, "nearest")
    along = [axis for axis in (0, 1) if taps.shape[axis] > 1] or [1]
    shape = tuple(taps.shape[axis] for axis in along)
    origins = tuple((size - 1) // 2 - size // 2 for size in shape)
    return Passes([[Pass(taps.reshape(shape), tuple(axes[axis] for axis in along), origins, border, value)]], steps,
                  "nearest")


def rows_and_columns(source: Source, axes: tuple[int, int] | None) -> tuple[int, int]:
    """The image's axes, counted from the first. Raises ArgumentError."""
    rank = source.ndim
    names = source.about.axes.upper()
    if axes is None:
        if "Y" in names and "X" in names:
            return names.index("Y"), names.index("X")
        axes = (-2, -1)
    if rank < 2 or not all(-rank <= axis < rank for axis in axes) or len({axis % rank for axis in axes}) < 2:
        raise ArgumentError(f"the image has {rank} axes", argument="axes", value=axes,
                            hint="two of them: rows, columns; for instance -2,-1")
    return axes[0] % rank, axes[1] % rank


def _filtered(how: FileFilter, source: Source, chunks: tuple[tuple[int, ...], ...]) -> Any:
    da = package("dask.array")
    rows, columns = rows_and_columns(source, how.axes)
    x = da.from_array(source, chunks=chunks, asarray=False, fancy=False,
                      name=f"warpconv-read-{package('dask.base').tokenize(source, chunks)}",
                      meta=np.empty((0,) * source.ndim, source.dtype))
    if how.taps is None:
        return x
    taps = np.asarray(how.taps, np.float64)
    arguments = (taps if rows < columns else taps.T, tuple(sorted((rows, columns))), how.border, how.border_value,
                 how.steps)
    chunked = Chunked(x, "filter", threads=not (how.workers or how.scheduler))
    return chunked.deferred(plan, how.dtype or source.dtype.name, arguments, Extras(how.device, None, how.algorithm),
                            None)


def _chunks(how: FileFilter, source: Source) -> tuple[tuple[int, ...], ...]:
    """Chunks of whole tiles of the output, none shorter than the filter is."""
    rows, columns = rows_and_columns(source, how.axes)
    depth = [0] * source.ndim
    depth[rows], depth[columns] = (n // 2 + 1 for n in ((1, 1) if how.taps is None else how.taps.shape))
    stored = stored_sizes(source.about, how.output)
    unit = [both if (both := math.lcm(a, b)) <= LARGEST_UNIT else a for a, b in zip(stored, source.about.stored)]
    room = max(1, sizes.bytes_of(how.memory) // (2 * _at_once(how)))
    try:
        found = sizes.chunks(source.shape, source.dtype, room, depth, multiple=unit, output=how.dtype)
    except ArgumentError as error:
        if error.argument != "budget":
            raise
        raise ArgumentError("so little memory does not hold the chunks at work", argument="memory", value=how.memory,
                            hint=f"{2 * _at_once(how)} of them, each {error.hint}") from error
    found = _smaller(source, found, unit, depth, CHUNKS_A_THREAD * _at_once(how))
    return tuple(_cut(n, size, least) for n, size, least in zip(source.shape, found, depth))


def _smaller(source: Source, sizes: Sequence[int], unit: Sequence[int], least: Sequence[int],
             count: int) -> Sequence[int]:
    """Chunks of these sizes or smaller ones, as many as ``count`` where they can be."""
    while math.prod(-(-n // size) for n, size in zip(source.shape, sizes)) < count:
        halves = {axis: half for axis, size in enumerate(sizes)
                  if least[axis] <= (half := -(-size // (2 * unit[axis])) * unit[axis]) < size}
        axis = max(halves, key=lambda axis: sizes[axis], default=None)
        if axis is None:
            break
        made = [halves[axis] if at == axis else size for at, size in enumerate(sizes)]
        if math.prod(made) * source.dtype.itemsize < SMALLEST_CHUNK:
            break
        sizes = made
    return sizes


def _cut(extent: int, size: int, least: int) -> tuple[int, ...]:
    made = [size] * (extent // size) + ([extent % size] if extent % size else [])
    if len(made) > 1 and made[-1] < least:
        made[-2:] = [made[-2] + made[-1]]
    return tuple(made) or (0,)


def _at_once(how: FileFilter) -> int:
    """Chunks at work at a time."""
    if how.workers:
        return how.workers * (GPU_THREADS if how.device == "cuda" else 1)
    return how.threads or min(os.cpu_count() or 1, MOST_THREADS)


def _visible() -> list[str]:
    """The GPUs that this process sees, as their processes are told of them."""
    from warpconv.runtime.devices.cuda import contexts
    told = os.environ.get("CUDA_VISIBLE_DEVICES")
    return told.split(",") if told else list(map(str, range(contexts.count())))


def _about(how: FileFilter, source: Source, chunks: Sequence[Sequence[int]], stored_as: str) -> dict[str, Any]:
    """What two runs have in common that make the same array."""
    taps = np.empty((0, 0)) if how.taps is None else np.ascontiguousarray(how.taps, np.float64)
    return {"version": VERSION, "input": [os.path.realpath(source.path), source.stamp()], "shape": source.shape,
            "dtype": source.dtype.name, "taps": hashlib.sha256(taps).hexdigest(),
            "taps_shape": taps.shape, "border": [how.border.value, how.border_value], "steps": how.steps,
            "output": stored_as, "axes": rows_and_columns(source, how.axes), "chunks": chunks,
            "algorithm": how.algorithm}


def _tasks(made: Any, part: Part, done: frozenset[str]) -> list[Any]:
    """For each chunk that is not there a task that stores it, all of one graph: one for each takes 3 ms a chunk."""
    ends = [list(itertools.pairwise((0, *itertools.accumulate(each)))) for each in made.chunks]
    run = uuid.uuid4().hex[:12]         # on a scheduler of many users, a key is one task
    where, layer = f"warpconv-output-{run}", f"{STORE}{run}"
    graph: dict[Any, Any] = {where: part}
    for index in np.ndindex(*made.numblocks):
        name, region = "-".join(map(str, index)), [ends[axis][at] for axis, at in enumerate(index)]
        if name not in done and all(low < high for low, high in region):
            graph[f"{layer}-{name}"] = (functools.partial(_store, region=region, name=name), (made.name, *index), where)
    whole = package("dask.highlevelgraph").HighLevelGraph.from_collections(layer, graph, dependencies=[made])
    return [package("dask.delayed").Delayed(key, whole, layer=layer) for key in graph if key != where]


def _store(block: Any, part: Part, region: Sequence[tuple[int, int]], name: str) -> None:
    part.write(block if isinstance(block, np.ndarray) else block.get(), region, name)


def _run(tasks: list[Any], how: FileFilter, count: int, advance: Advance) -> None:
    if how.workers or how.scheduler:
        _run_on_workers(tasks, how, count, advance)
    elif tasks:
        left = itertools.count(count - len(tasks) + 1)

        def told(key: Any, *rest: Any) -> None:
            if str(key).startswith(STORE):
                advance(next(left), count)

        with package("dask.callbacks").Callback(posttask=told):
            package("dask").compute(*tasks, scheduler="threads", num_workers=_at_once(how))


def _run_on_workers(tasks: list[Any], how: FileFilter, count: int, advance: Advance) -> None:
    """By a cluster's scheduler, which gives the chunks of a worker that is lost to others."""
    distributed = package("distributed")
    with _cluster(how, distributed) as cluster, distributed.Client(how.scheduler or cluster) as client:
        futures = client.compute(tasks)
        try:
            for number, future in enumerate(distributed.as_completed(futures), count - len(tasks) + 1):
                future.result()
                future.release()        # what a lost worker had stored is not made again
                advance(number, count)
        except distributed.KilledWorker as error:
            raise DeviceError(f"a worker was lost {error.allowed_failures + 1} times over one chunk",
                              argument="memory", value=how.memory,
                              hint="give less memory to the chunks: the same command goes on from here") from error
        finally:
            client.cancel(futures)


def _nobody(done: int, count: int) -> None:
    pass


def _cluster(how: FileFilter, distributed: Any) -> Any:
    """Workers of this machine; where GPUs are asked for and none is named, each sees one of them, in turn."""
    if how.scheduler:
        return contextlib.nullcontext()
    if how.device == "cuda":
        gpus = _visible()
        workers = {number: {"cls": distributed.Nanny, "options": {
            "nthreads": GPU_THREADS, "env": {"CUDA_VISIBLE_DEVICES": gpus[number % len(gpus)]}}}
            for number in range(how.workers)}
        return distributed.SpecCluster(workers=workers, scheduler={"cls": distributed.Scheduler,
                                                                   "options": {"dashboard": False}})
    return distributed.LocalCluster(n_workers=how.workers, threads_per_worker=1, dashboard_address=None)
