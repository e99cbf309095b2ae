"""Batches on a GPU whose memory is the host's here: images read where they lie, what is copied, what is given back."""

from __future__ import annotations

import contextlib
import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

import warpconv
from tests import checks, settings
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.plan import Role
from warpconv.runtime.arrays.view import ArrayKind, ArrayView
from warpconv.runtime.call import ragged
from warpconv.runtime.devices.cpu.report import Buffer
from warpconv.runtime.ndimage import batch_gpu, batches, lists, planes

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))

SIZES = ((1, 1), (9, 70), (64, 33), (3, 5), (40, 129))
TAPS = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]]) / 8


class Pool:
    """Memory of the host, poisoned, at multiples of 64 bytes as a GPU's."""

    def __init__(self):
        self.lent, self.taken = {}, 0

    def allocate(self, nbytes, stream):
        memory = np.full(max(1, nbytes) + 64, 0xff, np.uint8)
        pointer = -(-memory.ctypes.data // 64) * 64
        self.lent[pointer] = memory
        self.taken += 1
        return SimpleNamespace(pointer=pointer, nbytes=nbytes)

    def release(self, block):
        del self.lent[block.pointer]


class Backend:
    """Runs the CPU device's kernel on addresses, as a GPU does."""

    def __init__(self, backend):
        self.program, self.compiled = backend.program, backend.compiled
        self.launches = []

    def run(self, call, prepared, queue):
        step = self.program.launches[0]
        buffers = []
        for name in step.arguments:
            pointer = call.operands[name].pointer
            array = np.frombuffer((ctypes.c_char * 16).from_address(pointer), np.uint8)
            writable = self.program.argument(name).role is Role.OUTPUT
            buffers.append(Buffer(name=name, array=array, writable=writable, alignment=1))     # where it is
        self.launches.append(queue.handle)
        self.compiled.launch(step.entry, grid=step.grid_of(call.shape), block=step.block, shared_bytes=0, args=buffers)


class Array:
    """A GPU's array in the host's memory: CuPy's names of what is read of one."""

    def __init__(self, values):
        self.values, self.shape, self.strides, self.dtype = values, values.shape, values.strides, values.dtype
        self.data = SimpleNamespace(ptr=values.ctypes.data, device_id=0)


@pytest.fixture
def gpu(monkeypatch):
    """Everything of a GPU that a batch uses, and what it was asked for."""
    pool, backends, copies = Pool(), {}, []
    real = ragged.kernel_of
    monkeypatch.setattr("warpconv.runtime.arrays.streams._is_memory", lambda handle: True)  # they are numbers

    def kernel_of(layer, device, epilogue, algorithm):
        kernel = real(layer, None, epilogue, algorithm)
        backend = backends.setdefault(id(kernel), Backend(kernel.backend))
        return SimpleNamespace(spec=kernel.spec, program=kernel.program, backend=backend, plan=kernel.plan,
                               padding_value=kernel.padding_value)

    def copy_in(array, pointer, stream):
        array = array if isinstance(array, np.ndarray) else array.owner
        copies.append(array.nbytes)
        ctypes.memmove(pointer, array.ctypes.data, array.nbytes)

    def copy_out(view, pointer, stream):
        copies.append(-view.nbytes)
        ctypes.memmove(view.pointer, pointer, view.nbytes)

    def view(value, argument, *, dtypes=None, writable=False, **more):
        if not isinstance(value, Array):
            return real_view(value, argument, dtypes=dtypes, writable=writable, **more)
        dtype = DType.parse(value.dtype.name)
        return ArrayView(ArrayKind.CUPY, value.data.ptr, value.shape,
                         tuple(step // dtype.itemsize for step in value.strides), dtype, 0, value, False)

    def empty(like, shape, dtype, *, stream, order=None):
        return Array(np.full(shape, np.nan if dtype.is_float else 0x5A, dtype.value))

    real_view = batches.arrays.view
    monkeypatch.setattr(ragged, "kernel_of", kernel_of)
    monkeypatch.setattr(batches, "resolve_device", lambda *args: 0)
    monkeypatch.setattr(batch_gpu, "memory", SimpleNamespace(pool=pool, copy_in=copy_in, copy_out=copy_out))
    monkeypatch.setattr(batch_gpu, "streams", SimpleNamespace(capturing=lambda stream: stream == 99,
                                                              order=lambda *streams: copies.append(streams)))
    monkeypatch.setattr(batch_gpu.contexts, "activate", lambda *args: contextlib.nullcontext())
    monkeypatch.setattr(batch_gpu.arrays, "current_stream", lambda like: 7)
    for module in (lists.arrays, planes.arrays):
        monkeypatch.setattr(module, "view", view)
    monkeypatch.setattr(lists, "signatures", SimpleNamespace(library=lambda value: value))
    real_empty = lists.arrays.empty
    monkeypatch.setattr(lists.arrays, "empty", lambda like, *args, **more: (empty if like.is_device else real_empty)(
        like, *args, **more))
    monkeypatch.setattr(lists, "parts", lambda images, real=lists.parts: [
        Array(images.whole.values[at:at + int(np.prod(size))].reshape(size)) for at, size in zip(
            images.places.offsets.tolist(), images.shapes.tolist())] if images.like.is_device else real(images))
    found = SimpleNamespace(pool=pool, copies=copies, launches=lambda: sum((b.launches for b in backends.values()), []))
    yield found
    assert not pool.lent, "memory was not given back"


def drawn(dtype="float32", sizes=SIZES):
    rng = settings.generator(31)
    return [rng.standard_normal(size).astype(dtype) if dtype == "float32" else rng.integers(0, 256, size, dtype)
            for size in sizes]


def alone(images, *positional, name="correlate", **more):
    return [getattr(warpconv, name)(image, *positional, device="cpu", algorithm="direct", **more) for image in images]


def same(found, expected):
    assert len(found) == len(expected)
    for each, other in zip(found, expected):
        each = each.values if isinstance(each, Array) else each
        assert each.dtype == other.dtype and np.allclose(each, other, atol=2e-5)


@pytest.mark.long
def test_arrays_of_the_host_go_and_come_once(gpu):
    images = drawn()
    same(warpconv.gaussian_gradient_magnitude(images, 1.2), [
        warpconv.gaussian_gradient_magnitude(image, 1.2, device="cpu") for image in images])
    whole = 4 * sum(image.size for image in images)
    assert gpu.copies[0] == whole and [size < 0 for size in gpu.copies] == [False] * (len(gpu.copies) - 1) + [True]
    assert len(gpu.copies) - 2 == len(gpu.launches()) and set(gpu.launches()) == {0}     # a table for each launch


def test_a_gpus_arrays_are_read_where_they_lie(gpu):
    whole = np.asfortranarray(settings.generator(32).standard_normal((300, 200), np.float32))
    images = [whole[10:80, 5:30], whole[::2, 100:101], whole[5:6, ::-3], whole[250:, 60:190].T]
    same(warpconv.correlate(list(map(Array, images)), TAPS, mode="mirror"), alone(images, TAPS, mode="mirror"))
    assert gpu.launches() == [7] and len(gpu.copies) == 1 and gpu.pool.taken == 1      # the table


def test_outputs_are_written_in_place(gpu):
    images = drawn()
    expected, sources = alone(images, TAPS), list(map(Array, images))
    outputs = [Array(np.full(image.shape, np.nan, np.float32)) for image in images]
    made = warpconv.correlate(sources, TAPS, outputs)
    assert all(each is output for each, output in zip(made, outputs))
    same(outputs, expected)
    assert len(gpu.launches()) == 1
    warpconv.correlate(sources, TAPS, sources)      # results of their own first, then copied
    same(sources, expected)
    assert len(gpu.launches()) == 3


def test_outputs_that_cannot_be(gpu):
    images = list(map(Array, drawn()))
    memory = np.zeros(8000, np.float32)
    meeting = [Array(np.zeros(image.shape, np.float32)) for image in images]
    meeting[4], meeting[2] = Array(memory[:5160].reshape(40, 129)), Array(memory[5000:7112].reshape(64, 33))
    with pytest.raises(ArgumentError, match="outputs 2 and 4 share memory"):
        warpconv.correlate(images, TAPS, meeting)
    gaps = [*meeting[:4], Array(np.zeros((40, 200), np.float32)[:, :129])]
    with pytest.raises(ArgumentError, match="output 4 has gaps"):
        warpconv.correlate(images, TAPS, gaps)
    with pytest.raises(ArgumentTypeError, match="not in one place"):
        warpconv.correlate(images, TAPS, [np.zeros(image.shape, np.float32) for image in images])
    with pytest.raises(ShapeError, match="output 1 has another shape than image 1"):
        warpconv.correlate(images, TAPS, [
            meeting[0], Array(np.zeros((9, 71), np.float32)), *meeting[2:]])
    assert not gpu.launches()


def test_results_begin_at_multiples_of_256_bytes(gpu):
    made = warpconv.sobel(list(map(Array, drawn("uint8"))), output="float32")
    first = made[0].data.ptr
    assert [(each.data.ptr - first) % 256 for each in made] == [0] * len(made)


def test_while_a_stream_is_captured_a_batch_is_done_image_by_image(gpu, monkeypatch):
    called = []
    monkeypatch.setattr(batches.Job, "one_by_one", lambda self, values, output: called.append(values) or values)
    images = drawn()
    assert warpconv.correlate(images, TAPS, stream=99) is images and called == [images]
    assert not gpu.launches()
