"""Arrays of the other libraries as views: DLPack for real, the GPU libraries by stand-ins."""

from __future__ import annotations

import gc
import sys
import types
import weakref

import numpy as np
import pytest

from tests.runtime.arrays.fake_arrays import DlpackOnly, Interface, cupy, gpu_pointers, torch  # noqa: F401
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentTypeError
from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayKind, as_contiguous, dlpack, empty, view


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
        ({"dtype": "float64"}, "no kernels for float64"), ({"device": ("meta", None)}, "device meta.*no elements"),
        ({"device": ("mps", 0)}, r"device mps.*\.cuda\(\)"),
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
        ({"typestr": "?!"}, "no kernels"),
        ({"typestr": 5}, "no kernels"), ({"typestr": "<V2"}, "no kernels")])
    def test_refused(self, gpu_pointers, entries, error):
        with pytest.raises(ArgumentTypeError, match=error):
            view(Interface(**entries), "x")

    @pytest.mark.parametrize("entries", [
        {"shape": "ab"}, {"shape": None}, {"shape": (-1, 3)}, {"shape": (2.0, 3)}, {"data": 5}, {"data": ("x", False)},
        {"data": (1, 2, 3)}, {"strides": (4,)}, {"strides": 5}])
    def test_what_is_no_interface(self, gpu_pointers, entries):
        with pytest.raises(ArgumentTypeError, match="x ="):
            view(Interface(**entries), "x")

    @pytest.mark.parametrize("interface", [5, [], {}, {"shape": (1, 2)}])
    def test_what_has_no_fields(self, gpu_pointers, interface):
        made = Interface()
        made.__cuda_array_interface__ = interface
        with pytest.raises(ArgumentTypeError, match="CUDA array interface 3"):
            view(made, "x")


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

    @pytest.mark.thin(2)
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
