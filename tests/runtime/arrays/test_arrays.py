"""Arrays as views: NumPy's for real, overlaps, handles of streams."""

from __future__ import annotations

import ctypes
import types
from pathlib import Path

import numpy as np
import pytest

from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, DeviceError, ShapeError
from warpconv.runtime.arrays import (ArrayKind, ArrayView, as_contiguous, empty, overlaps, stream_handle, streams,
                                     view)

MEMORY = ctypes.create_string_buffer(64)
STREAM = ctypes.addressof(MEMORY)       # where a driver might keep a stream


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

    @pytest.mark.parametrize("dtype", ["float64", "int64", "object", "bool", "U3"])
    def test_element_without_kernels(self, dtype):
        with pytest.raises(ArgumentTypeError, match="no kernels for") as caught:
            view(np.zeros(3, dtype), "x")
        assert caught.value.hint.startswith("cast the array")

    @pytest.mark.parametrize("dtype", ["complex64", "complex128"])
    def test_complex_elements(self, dtype):
        """A cast would drop their imaginary part without a word, so the way out is another."""
        with pytest.raises(ArgumentTypeError, match=rf"no kernels for {dtype}.*\.real and \.imag") as caught:
            view(np.zeros(3, dtype), "x")
        assert "cast the array" not in caught.value.hint

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

    @pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
    def test_matrices(self):
        with pytest.raises(ArgumentTypeError, match="numpy.asarray"):
            view(np.asmatrix(np.zeros((3, 3), np.float32)), "x")

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

    def test_a_copy_that_no_memory_holds(self):
        array = np.broadcast_to(np.float32(0), (1, 1, 1 << 30, 1 << 20))
        with pytest.raises(DeviceError, match="copy"):
            as_contiguous(array, view(array, "x"), "x")

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


class TestStreamHandle:
    @pytest.mark.parametrize("stream, handle", [
        (0, 0), (1, 0), (2, 2), (np.int64(STREAM), STREAM),
        (types.SimpleNamespace(cuda_stream=STREAM + 5, synchronize=None), STREAM + 5),
        (types.SimpleNamespace(ptr=STREAM + 6, synchronize=None), STREAM + 6),
        (types.SimpleNamespace(handle=STREAM + 7, synchronize=None), STREAM + 7),
        (types.SimpleNamespace(__cuda_stream__=lambda: (0, STREAM + 8), cuda_stream=1), STREAM + 8),
        (types.SimpleNamespace(__cuda_stream__=(0, STREAM + 9)), STREAM + 9)],
        ids=["0", "1", "2", "number", "PyTorch", "CuPy", "PyCUDA", "protocol", "its first draft"])
    def test_known(self, stream, handle):
        assert stream_handle(stream) == handle

    @pytest.mark.parametrize("stream", [None, True, "0", 1.5, object(), types.SimpleNamespace(ptr=4096)])
    def test_unknown(self, stream):
        with pytest.raises(ArgumentTypeError, match="not a CUDA stream"):
            stream_handle(stream)

    def test_negative(self):
        with pytest.raises(ArgumentError):
            stream_handle(-1)

    @pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="this system does not show a process its memory")
    @pytest.mark.parametrize("handle", [3, 77, 2**31, 2**47, 2**63, 2**70])
    def test_a_number_where_there_is_no_memory_is_no_stream(self, handle, monkeypatch):
        """A driver would read there, and end the process."""
        monkeypatch.setattr(streams, "_seen", set())
        for _ in range(2):
            with pytest.raises(ArgumentError, match="no stream of this process"):
                stream_handle(handle)
