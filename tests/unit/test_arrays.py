"""Arrays of every library as views: NumPy and DLPack for real, the GPU libraries by stand-ins."""

from __future__ import annotations

import gc
import sys
import types
import weakref

import numpy as np
import pytest

from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.runtime import arrays, dlpack
from warpconv.runtime.arrays import ArrayKind, ArrayView, as_contiguous, empty, overlaps, stream_handle, view
from warpconv.runtime.cuda import contexts


class DlpackOnly:
    """A producer that offers nothing but DLPack, over a NumPy array."""

    def __init__(self, array, versioned=True):
        self.array, self.versioned, self.streams = array, versioned, []

    def __dlpack__(self, *, stream=None, **options):
        if options and not self.versioned:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.streams.append(stream)
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Interface:
    """A CUDA array interface with the given entries over its defaults."""

    def __init__(self, **entries):
        self.__cuda_array_interface__ = {"shape": (2, 3), "typestr": "<f4", "data": (4096, False), "version": 3,
                                         **entries}


@pytest.fixture
def torch(monkeypatch):
    module = types.ModuleType("torch")

    class Device:
        def __init__(self, type, index=None):
            self.type, self.index = type, index

    class TorchType(str):
        def __str__(self):
            return "torch." + str.lower(self)

    class Tensor:
        def __init__(self, shape=(2, 3), dtype="float32", device=("cuda", 1), strides=None, requires_grad=False,
                     neg=False, pointer=1024):
            self.shape, self.dtype, self.device = shape, getattr(module, dtype, TorchType(dtype)), Device(*device)
            self.requires_grad, self._neg, self._pointer = requires_grad, neg, pointer
            self._strides = strides or (3, 1)

        def stride(self):
            return self._strides

        def data_ptr(self):
            if self._pointer is None:
                raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage\nmore")
            return self._pointer

        def is_neg(self):
            return self._neg

        def contiguous(self):
            return Tensor(self.shape, self.dtype.removeprefix("torch."), (self.device.type, self.device.index))

    class StreamContext:
        def __init__(self, stream):
            self.stream = stream

        def __enter__(self):
            module.entered.append(self.stream)

        def __exit__(self, *error):
            module.entered.append(None)

    for name in ("float32", "bfloat16", "int32", "float64"):
        setattr(module, name, TorchType(name))
    module.entered = []
    module.Tensor = Tensor
    module.is_grad_enabled = lambda: True
    module.empty = lambda shape, dtype, device: Tensor(shape, str.lower(dtype), (device.type, device.index))
    module._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda ordinal: 500 + ordinal)
    module.cuda = types.SimpleNamespace(current_device=lambda: 2, stream=StreamContext,
                                        ExternalStream=lambda handle, device: ("external", handle, device.index),
                                        default_stream=lambda device: ("default", device.index))
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.fixture
def cupy(monkeypatch):
    module = types.ModuleType("cupy")

    class ndarray:
        def __init__(self, shape=(2, 3), dtype="float32", strides=(12, 4), device=1):
            self.shape, self.dtype, self.strides = shape, np.dtype(dtype), strides
            self.data, self.device = types.SimpleNamespace(ptr=2048), types.SimpleNamespace(id=device)

    class Entered:
        def __init__(self, what):
            self.what = what

        def __enter__(self):
            module.entered.append(self.what)

        def __exit__(self, *error):
            module.entered.append(None)

    module.entered = []
    module.ndarray = ndarray
    module.empty = lambda shape, dtype: ndarray(shape, dtype)
    module.ascontiguousarray = lambda array: ndarray(array.shape, array.dtype)
    module.cuda = types.SimpleNamespace(
        Device=lambda ordinal: Entered(("device", ordinal)), ExternalStream=lambda ptr: Entered(("stream", ptr)),
        Stream=types.SimpleNamespace(null=Entered(("stream", 0)), ptds=Entered(("stream", 2))),
        get_current_stream=lambda ordinal=-1: types.SimpleNamespace(ptr=700 + ordinal))
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


@pytest.fixture
def gpu_pointers(monkeypatch):
    """Addresses belong to GPU 1; 0 is nobody's, so the default device's."""
    monkeypatch.setattr(contexts, "pointer_device", lambda pointer: 1 if pointer else None)
    monkeypatch.setattr(contexts, "default_device", lambda: 0)


class TestNumpy:
    def test_fields(self):
        array = np.zeros((2, 3, 4), np.float16)[:, ::2]
        seen = view(array, "input")
        assert (seen.kind, seen.shape, seen.strides) == (ArrayKind.NUMPY, (2, 2, 4), (12, 8, 1))
        assert (seen.dtype, seen.device, seen.is_device, seen.readonly) == (DType.FLOAT16, None, False, False)
        assert seen.pointer == array.ctypes.data and seen.owner is array and seen.nbytes == 32
        assert not seen.contiguous

    @pytest.mark.parametrize("dtype", [d for d in DType if d is not DType.BFLOAT16])
    def test_every_type(self, dtype):
        assert view(np.zeros(3, dtype.value), "x").dtype is dtype

    def test_bfloat16_by_name(self):
        ml_dtypes = pytest.importorskip("ml_dtypes")
        assert view(np.zeros(3, ml_dtypes.bfloat16), "x").dtype is DType.BFLOAT16

    @pytest.mark.parametrize("shape", [(0, 3), (2, 0), ()])
    def test_empty_and_scalar_shapes(self, shape):
        seen = view(np.zeros(shape, np.float32), "x")
        assert seen.contiguous and seen.nbytes == 4 * int(np.prod(shape))

    @pytest.mark.parametrize("value", [[1.0, 2.0], None, 3.0, "array", np.float32(1), object()])
    def test_no_array(self, value):
        with pytest.raises(ArgumentTypeError, match="has to be an array") as caught:
            view(value, "weight")
        assert caught.value.argument == "weight" and caught.value.hint

    @pytest.mark.parametrize("dtype", ["float64", "int64", "complex64", "object", "bool", "U3"])
    def test_element_without_kernels(self, dtype):
        with pytest.raises(ArgumentTypeError, match="no kernels for") as caught:
            view(np.zeros(3, dtype), "x")
        assert "cast" in caught.value.hint

    def test_dtypes_wanted(self):
        with pytest.raises(ArgumentTypeError, match="float32 or float16.*int32"):
            view(np.zeros(3, np.int32), "x", dtypes=(DType.FLOAT32, DType.FLOAT16))

    def test_rank_wanted(self):
        with pytest.raises(ShapeError, match="x has 2 axes, 4 are needed"):
            view(np.zeros((2, 3), np.float32), "x", ndim=4)

    def test_foreign_byte_order(self):
        with pytest.raises(ArgumentTypeError, match="byte order"):
            view(np.zeros(3, np.dtype(np.float32).newbyteorder("S")), "x")

    def test_masked(self):
        with pytest.raises(ArgumentTypeError, match="masked"):
            view(np.ma.zeros(3, np.float32), "x")

    def test_misaligned(self):
        raw = np.zeros(17, np.uint8)[1:].view(np.float32)
        with pytest.raises(ArgumentError, match="aligned"):
            view(raw, "x")

    def test_strides_between_elements(self):
        records = np.zeros(3, np.dtype({"names": ["a"], "formats": ["<f4"], "itemsize": 6}))["a"]
        with pytest.raises(ArgumentError, match="whole elements"):
            view(records, "x")

    def test_writable(self):
        array = np.zeros((2, 3), np.float32)
        assert not view(array, "out", writable=True).readonly
        array.flags.writeable = False
        assert view(array, "input").readonly
        with pytest.raises(ArgumentError, match="read-only"):
            view(array, "out", writable=True)

    def test_broadcast_is_not_writable(self):
        spread = np.lib.stride_tricks.as_strided(np.zeros(3, np.float32), (4, 3), (0, 4))
        with pytest.raises(ArgumentError, match="share memory"):
            view(spread, "out", writable=True)

    def test_empty_and_contiguous(self):
        array = np.arange(12, dtype=np.float32).reshape(3, 4).T
        seen = view(array, "x")
        new = empty(seen, (2, 5), DType.INT8, stream=0)
        assert isinstance(new, np.ndarray) and new.shape == (2, 5) and new.dtype == np.int8
        copy, copied = as_contiguous(array, seen, "x")
        assert copied.contiguous and np.array_equal(copy, array) and copied.pointer == copy.ctypes.data
        assert as_contiguous(copy, copied, "x") == (copy, copied)


class TestAliasing:
    def test_bounds_with_negative_strides(self):
        array = np.zeros((4, 5), np.float32)
        assert view(array[::-1, ::-2], "x").byte_bounds() == view(array, "x").byte_bounds()
        assert view(array[1:, 1:2], "x").byte_bounds() == (array.ctypes.data + 24, array.ctypes.data + 24 + 44)

    def test_overlaps(self):
        array = np.zeros(10, np.float32)
        first, middle, last = (view(array[s], "x") for s in (slice(0, 5), slice(3, 7), slice(5, 10)))
        assert overlaps(first, middle) and overlaps(middle, first) and not overlaps(first, last)
        assert not overlaps(view(array[3:3], "x"), first)

    def test_devices_do_not_overlap(self):
        views = [ArrayView(ArrayKind.TORCH, 64, (4,), (1,), DType.FLOAT32, device, None, False)
                 for device in (0, 1, None)]
        assert overlaps(views[0], views[0])
        assert not overlaps(views[0], views[1]) and not overlaps(views[0], views[2])


class TestTorch:
    def test_fields(self, torch):
        tensor = torch.Tensor(dtype="bfloat16")
        seen = view(tensor, "input")
        assert (seen.kind, seen.pointer, seen.shape, seen.strides) == (ArrayKind.TORCH, 1024, (2, 3), (3, 1))
        assert (seen.dtype, seen.device, seen.owner) == (DType.BFLOAT16, 1, tensor)
        assert view(torch.Tensor(device=("cuda", None)), "x").device == 2

    def test_on_the_host(self, torch):
        seen = view(torch.Tensor(device=("cpu", None)), "x")
        assert seen.device is None and seen.kind is ArrayKind.TORCH and arrays.current_stream(seen) is None
        assert empty(seen, (4,), DType.INT32, stream=0).device.type == "cpu"

    def test_requires_grad(self, torch):
        with pytest.raises(ArgumentTypeError, match="detach"):
            view(torch.Tensor(requires_grad=True), "weight")
        torch.is_grad_enabled = lambda: False
        assert view(torch.Tensor(requires_grad=True), "weight").pointer == 1024

    @pytest.mark.parametrize("options, words", [
        ({"dtype": "float64"}, "no kernels for float64"), ({"device": ("meta", None)}, "device meta"),
        ({"pointer": None}, "no plain memory"), ({"neg": True}, "lazy negation")])
    def test_refused(self, torch, options, words):
        with pytest.raises(ArgumentTypeError, match=words):
            view(torch.Tensor(**options), "x")

    def test_stream(self, torch):
        assert arrays.current_stream(view(torch.Tensor(), "x")) == 501
        del torch._C._cuda_getCurrentRawStream
        torch.cuda.current_stream = lambda ordinal: types.SimpleNamespace(cuda_stream=40 + ordinal)
        assert arrays.current_stream(view(torch.Tensor(), "x")) == 41

    def test_empty_belongs_to_the_stream(self, torch):
        seen = view(torch.Tensor(), "x")
        assert empty(seen, (4, 5), DType.FLOAT32, stream=501).shape == (4, 5)
        assert torch.entered == []
        empty(seen, (4,), DType.FLOAT32, stream=77)
        empty(seen, (4,), DType.FLOAT32, stream=0)
        assert torch.entered == [("external", 77, 1), None, ("default", 1), None]
        with pytest.raises(ArgumentTypeError, match="uint16"):
            empty(seen, (4,), DType.UINT16, stream=501)

    def test_contiguous(self, torch):
        tensor = torch.Tensor(strides=(1, 2))
        copy, seen = as_contiguous(tensor, view(tensor, "x"), "x")
        assert copy is not tensor and seen.contiguous and seen.kind is ArrayKind.TORCH


class TestCupy:
    def test_fields(self, cupy):
        seen = view(cupy.ndarray(), "x")
        assert (seen.kind, seen.pointer, seen.device, seen.strides) == (ArrayKind.CUPY, 2048, 1, (3, 1))
        assert arrays.current_stream(seen) == 701

    def test_empty_and_contiguous(self, cupy):
        seen = view(cupy.ndarray(strides=(4, 8)), "x")
        assert empty(seen, (3,), DType.FLOAT16, stream=701).dtype == np.float16
        empty(seen, (3,), DType.FLOAT16, stream=9)
        assert cupy.entered == [("device", 1), None, ("device", 1), ("stream", 9), None, None]
        assert as_contiguous(seen.owner, seen, "x")[1].contiguous


class TestPycuda:
    def test_fields(self, monkeypatch, gpu_pointers):
        module = types.ModuleType("pycuda.gpuarray")

        class GPUArray:
            def __init__(self, gpudata):
                self.shape, self.strides, self.dtype, self.gpudata = (2, 3), (12, 4), np.dtype("f4"), gpudata

        module.GPUArray = GPUArray
        monkeypatch.setitem(sys.modules, "pycuda.gpuarray", module)
        seen = view(GPUArray(8192), "x")
        assert (seen.kind, seen.pointer, seen.device) == (ArrayKind.PYCUDA, 8192, 1)
        assert arrays.current_stream(seen) is None
        assert view(GPUArray(None), "x").device == 0


class TestInterface:
    def test_fields(self, gpu_pointers):
        seen = view(Interface(strides=None, stream=1, data=(4096, True)), "x")
        assert (seen.kind, seen.pointer, seen.strides) == (ArrayKind.CUDA_ARRAY_INTERFACE, 4096, (3, 1))
        assert (seen.device, seen.readonly, arrays.current_stream(seen)) == (1, True, 0)
        assert arrays.current_stream(view(Interface(stream=2), "x")) == 2
        assert arrays.current_stream(view(Interface(stream=None), "x")) is None
        assert view(Interface(strides=(4, 8)), "x").strides == (1, 2)

    def test_empty_array(self, gpu_pointers):
        assert view(Interface(shape=(0, 3), data=(0, False)), "x").device == 0

    @pytest.mark.parametrize("entries, error", [
        ({"mask": object()}, "mask"), ({"typestr": "<f8"}, "float64"), ({"typestr": ">f4"}, "byte order"),
        ({"typestr": "?!"}, "no kernels"), ({"typestr": "<V2"}, "no kernels")])
    def test_refused(self, gpu_pointers, entries, error):
        with pytest.raises(ArgumentTypeError, match=error):
            view(Interface(**entries), "x")


class TestDlpack:
    @pytest.mark.parametrize("versioned", [True, False])
    def test_host_round_trip(self, versioned):
        array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)[:, ::2]
        producer = DlpackOnly(array, versioned)
        seen = view(producer, "x")
        assert (seen.kind, seen.device, seen.dtype) == (ArrayKind.DLPACK, None, DType.INT16)
        assert (seen.pointer, seen.shape, seen.strides) == (array.ctypes.data, (2, 2, 4), (12, 8, 1))
        copy, copied = as_contiguous(producer, seen, "x")
        assert np.array_equal(copy, array) and copied.contiguous
        assert isinstance(empty(seen, (3,), DType.FLOAT32, stream=0), np.ndarray)
        assert producer.streams == [None]

    def test_reversed_axes_are_copied_right(self):
        array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4).transpose(2, 0, 1)[::-1]
        producer = DlpackOnly(array)
        assert np.array_equal(as_contiguous(producer, view(producer, "x"), "x")[0], array)

    def test_read_only_is_said(self):
        array = np.zeros(3, np.float32)
        array.flags.writeable = False
        if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
            assert view(DlpackOnly(array), "x").readonly

    @pytest.mark.parametrize("versioned", [True, False])
    def test_memory_is_let_go(self, versioned):
        class Tracked(np.ndarray):
            pass

        array = np.zeros(1000, np.float32).view(Tracked)
        gone = weakref.ref(array)
        producer = DlpackOnly(array, versioned)
        taken = dlpack.take(producer, "x", None)
        producer.array = array = None
        gc.collect()
        assert gone() is not None and taken.shape == (1000,)
        del taken
        gc.collect()
        assert gone() is None

    def test_bad_element_lets_go_too(self):
        array = np.zeros(3)
        count = sys.getrefcount(array)
        with pytest.raises(ArgumentTypeError, match="float64"):
            view(DlpackOnly(array), "x")
        gc.collect()
        assert sys.getrefcount(array) == count

    def test_cuda_streams(self):
        class OnGpu(DlpackOnly):
            def __dlpack_device__(self):
                return (2, 0)

        producer = OnGpu(np.zeros(3, np.float32))
        for stream in (None, 0, 2, 77):
            view(producer, "x", stream=stream)
        assert producer.streams == [1, 1, 2, 77]

    def test_other_devices_and_failures(self):
        class Elsewhere(DlpackOnly):
            def __dlpack_device__(self):
                return (10, 0)

        class Failing(DlpackOnly):
            def __dlpack__(self, **options):
                raise BufferError("not exportable")

        class NoCapsule(DlpackOnly):
            def __dlpack__(self, **options):
                return 5

        for producer, words in ((Elsewhere, "device type 10"), (Failing, "not exportable"), (NoCapsule, "no DLPack")):
            with pytest.raises(ArgumentTypeError, match=words):
                view(producer(np.zeros(3, np.float32)), "x")


class TestStreamHandle:
    @pytest.mark.parametrize("stream, handle", [
        (0, 0), (1, 0), (2, 2), (np.int64(77), 77), (types.SimpleNamespace(cuda_stream=5, synchronize=None), 5),
        (types.SimpleNamespace(ptr=6, synchronize=None), 6), (types.SimpleNamespace(handle=7, synchronize=None), 7),
        (types.SimpleNamespace(__cuda_stream__=lambda: (0, 8), cuda_stream=1), 8),
        (types.SimpleNamespace(__cuda_stream__=(0, 9)), 9)])
    def test_known(self, stream, handle):
        assert stream_handle(stream) == handle

    @pytest.mark.parametrize("stream", [None, True, "0", 1.5, object(), types.SimpleNamespace(ptr=4096)])
    def test_unknown(self, stream):
        with pytest.raises(ArgumentTypeError, match="not a CUDA stream"):
            stream_handle(stream)

    def test_negative(self):
        with pytest.raises(ArgumentError):
            stream_handle(-1)
