"""Device memory over a stand-in for the driver: what is reused, what is kept alive, what is copied."""

from __future__ import annotations

import ctypes
import sys
import threading
import types

import numpy as np
import pytest

from tests.runtime.devices.fake_cuda import PRIMARY, cuda  # noqa: F401
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, DeviceError
from warpconv.runtime import arrays
from warpconv.runtime.devices.cuda import contexts, memory, streams


class TestPool:
    @pytest.fixture
    def pool(self, cuda):
        cuda.stack.append(PRIMARY)
        return memory.StreamPool()

    def test_reused_on_the_same_stream_only(self, cuda, pool):
        first = pool.allocate(1000, 5)
        pointer = first.pointer
        pool.release(first)
        pool.release(first)
        assert pool.allocate(1000, 6).pointer != pointer
        assert pool.allocate(5000, 5).pointer != pointer
        assert pool.allocate(900, 5).pointer == pointer
        assert pool.allocate(900, 5).pointer != pointer

    def test_what_several_streams_used_goes_to_the_driver(self, cuda, pool):
        block = pool.allocate(1000, 5)
        pointer = block.pointer
        pool.release(block, to_driver=True)
        pool.release(block, to_driver=True)
        assert pointer not in cuda.memory and pool.held_bytes() == 0
        cuda.capturing.add(5)
        captured = pool.allocate(1000, 5)
        pointer = captured.pointer
        pool.release(captured, to_driver=True)
        assert pointer in cuda.memory           # a graph writes to it

    def test_held_bytes_are_what_the_driver_gave_in_this_context(self, cuda, pool):
        lent, spare = pool.allocate(1000, 5), pool.allocate(5000, 5)
        pool.release(spare)
        assert pool.held_bytes() == memory.size_class(1000) + memory.size_class(5000)
        with contexts.activate(1):
            assert pool.held_bytes() == 0
            pool.allocate(100, 0)
            assert pool.held_bytes() == 512
        pool.trim()
        assert pool.held_bytes() == memory.size_class(1000)
        pool.release(lent)
        assert pool.allocate(1000, 5).nbytes == 1000 and pool.held_bytes() == memory.size_class(1000)

    def test_not_across_contexts(self, cuda, pool):
        block = pool.allocate(100, 0)
        pointer = block.pointer
        pool.release(block)
        with contexts.activate(1):
            assert pool.allocate(100, 0).pointer != pointer
            assert pool.trim() == 0
        assert pool.trim() == 1 and pointer not in cuda.memory

    def test_per_thread_stream_is_per_thread(self, cuda, pool):
        pool.release(pool.allocate(100, 2))
        got = []

        def work():
            with contexts.activate(0):
                got.append(pool.allocate(100, 2).pointer)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert len(cuda.memory) == 2

    def test_nothing(self, cuda, pool):
        block = pool.allocate(0, 0)
        assert block.pointer == 0
        pool.release(block)
        assert cuda.memory == {} and pool.trim() == 0

    def test_out_of_memory(self, cuda, pool):
        cuda.room = 10_000
        block = pool.allocate(8192, 0)
        pool.release(block)
        assert pool.allocate(9000, 1).nbytes == 9000        # after trimming
        with pytest.raises(DeviceError, match="no room for .*100 of 200 free"):
            pool.allocate(9000, 1)

    def test_captured_memory_is_not_lent_again(self, cuda, pool):
        cuda.capturing.add(7)
        block = pool.allocate(100, 7)
        pointer = block.pointer
        assert ("cuMemAlloc_v2", (512, 2)) in cuda.calls and cuda.mode == 0
        pool.release(block)
        assert pool.allocate(100, 7).pointer != pointer
        assert pool.trim() == 0 and pool.trim(captured=True) == 1

    @pytest.mark.parametrize("nbytes", [1, 511, 512, 513, 4096, 4097, 10**6, 2**30 + 1])
    def test_size_classes(self, nbytes):
        size = memory.size_class(nbytes)
        assert size >= nbytes and size % 512 == 0 and memory.size_class(size) == size
        assert size - nbytes < max(512, nbytes / 8 + 1)


class TestKeepAlive:
    @pytest.fixture
    def keeper(self, cuda):
        cuda.stack.append(PRIMARY)
        return memory.KeepAlive()

    def test_swept_in_stream_order(self, cuda, keeper):
        things = [object() for _ in range(3)]
        before = [sys.getrefcount(thing) for thing in things]
        for i in range(3):
            keeper.hold([things[i]], 5)
        events = list(cuda.events)
        assert cuda.recorded == [(event, 5) for event in events] and len(keeper) == 3
        cuda.events[events[0]] = cuda.events[events[2]] = True
        keeper.sweep()
        assert len(keeper) == 2             # the third is behind the second
        cuda.events[events[1]] = True
        keeper.hold([], 5)
        assert len(keeper) == 0 and [sys.getrefcount(thing) for thing in things] == before
        assert sorted(args[0] for name, args in cuda.calls if name == "cuEventDestroy_v2") == events

    def test_other_contexts_are_left_alone(self, cuda, keeper):
        keeper.hold(["a"], 0)
        cuda.events[50_000] = True
        with contexts.activate(1):
            keeper.sweep()
            assert len(keeper) == 1
        keeper.sweep()
        assert len(keeper) == 0

    def test_captured_is_kept(self, cuda, keeper):
        cuda.capturing.add(7)
        keeper.hold(["a"], 7)
        keeper.sweep()
        assert len(keeper) == 1 and cuda.recorded == []

    def test_finalizers_may_hold_again(self, cuda, keeper):
        class Sly:
            def __del__(self):
                keeper.hold(["another"], 0)

        keeper.hold([Sly()], 0)
        cuda.events[50_000] = True
        keeper.sweep()
        assert len(keeper) == 1


class TestCopies:
    @pytest.fixture(autouse=True)
    def current(self, cuda):
        cuda.stack.append(PRIMARY)

    def test_in_and_out(self, cuda):
        array = np.arange(6, dtype=np.float32)
        memory.copy_in(array, 64, 5)
        memory.copy_out(array, 64, 5)
        memory.copy_in(arrays.view(array, "x"), 64, 5)
        seen = [(name, args) for name, args in cuda.calls if name in ("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
                                                                     "cuStreamSynchronize")]
        address = array.ctypes.data
        assert seen == [("cuMemcpyHtoDAsync_v2", (64, address, 24, 5)), ("cuMemcpyDtoHAsync_v2", (address, 64, 24, 5)),
                        ("cuStreamSynchronize", (5,)), ("cuMemcpyHtoDAsync_v2", (64, address, 24, 5))]

    def test_refused(self):
        with pytest.raises(ArgumentError, match="contiguous"):
            memory.copy_in(np.zeros((4, 4))[:, ::2], 64, 0)
        array = np.zeros(3)
        array.flags.writeable = False
        with pytest.raises(ArgumentError, match="read-only"):
            memory.copy_out(array, 64, 0)

    def test_on_the_device(self, cuda):
        memory.copy_device(64, 128, 10, 5)
        memory.fill(64, 255, 10, 5)
        memory.fill(64, 255, 0, 5)
        assert cuda.calls == [("cuMemcpyAsync", (64, 128, 10, 5)), ("cuMemsetD8Async", (64, 255, 10, 5))]

    def test_order(self, cuda):
        streams.order(5, 5)
        assert cuda.events == {}
        streams.order(5, 6)
        assert cuda.recorded == [(50_000, 5)]
        assert cuda.calls == [("cuStreamWaitEvent", (6, 50_000, 0)), ("cuEventDestroy_v2", (50_000,))]


class TestPycudaArrays:
    @pytest.fixture
    def gpuarray(self, cuda, monkeypatch):
        module = types.ModuleType("pycuda.gpuarray")

        class GPUArray:
            def __init__(self, shape, dtype, allocator=None, base=None, gpudata=None, strides=None):
                self.shape, self.dtype, self.base, self.allocator = shape, np.dtype(dtype), base, allocator
                self.gpudata = allocator(4096) if gpudata is None and allocator else gpudata
                self.strides = strides or np.empty(shape, dtype).strides

        module.GPUArray = GPUArray
        module.empty = lambda shape, dtype, allocator=None: GPUArray(shape, dtype, allocator)
        monkeypatch.setitem(sys.modules, "pycuda.gpuarray", module)
        sys.modules["pycuda"].gpuarray = module
        cuda.stack.append(PRIMARY)      # made current by PyTorch, say, so that PyCUDA does not see it
        return module

    def view(self, cuda, gpuarray, **options):
        cuda.memory[64] = (PRIMARY, 24)
        return arrays.view(gpuarray.GPUArray((2, 3), np.float32, gpudata=64, **options), "x")

    def test_own_allocator_where_pycuda_is_current(self, cuda, gpuarray):
        cuda.stack.append(PRIMARY)
        sys.modules["pycuda.driver"].Context.get_current = lambda: types.SimpleNamespace(handle=PRIMARY)
        seen = self.view(cuda, gpuarray, allocator=lambda nbytes: 4242)
        assert seen.device == 0
        assert arrays.empty(seen, (4,), DType.INT8, stream=0).gpudata == 4242

    def test_our_memory_elsewhere(self, cuda, gpuarray):
        new = arrays.empty(self.view(cuda, gpuarray), (4, 2), DType.FLOAT16, stream=0)
        assert cuda.memory[new.gpudata] == (PRIMARY, 16) and cuda.stack == [PRIMARY]
        pointer = int(new.gpudata)
        del new
        assert pointer not in cuda.memory and cuda.stack == [PRIMARY]

    def test_transposed_array_is_copied_through_the_host(self, cuda, gpuarray, monkeypatch):
        values = np.arange(6, dtype=np.float32)
        copied = {}

        def copy_from(address, pointer, nbytes, stream):
            ctypes.memmove(address, values.ctypes.data, nbytes)
            return 0

        def copy_to(pointer, address, nbytes, stream):
            copied[pointer] = ctypes.string_at(address, nbytes)
            return 0

        cuda.cuMemcpyDtoHAsync_v2, cuda.cuMemcpyHtoDAsync_v2 = copy_from, copy_to
        seen = self.view(cuda, gpuarray, strides=(4, 8))
        copy, copied_view = arrays.as_contiguous(seen.owner, seen, "x")
        assert copied_view.contiguous and copied_view.kind is arrays.ArrayKind.PYCUDA and cuda.stack == [PRIMARY]
        assert copied[copy.gpudata] == np.ascontiguousarray(values.reshape(3, 2).T).tobytes()

    def test_slice_is_copied_by_pycuda(self, cuda, gpuarray):
        taken = []
        gpuarray.GPUArray.__setitem__ = lambda self, index, value: taken.append((index, value))
        seen = self.view(cuda, gpuarray, strides=(24, 4))
        copy, copied_view = arrays.as_contiguous(seen.owner, seen, "x")
        assert taken == [(..., seen.owner)] and copied_view.contiguous
        assert sum(name == "cuCtxSynchronize" for name, _ in cuda.calls) == 2
