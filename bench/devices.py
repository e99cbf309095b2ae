"""What a study runs on: a GPU by way of PyTorch or CuPy, or the host (to try a study out; its times mean nothing)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from warpconv.codegen.dtypes import DType, Layout

Call = Callable[[], Any]

_SPIN_CYCLES_PER_MS = 2_000_000     # a GPU clock of 2 GHz; a slower one spins longer, which does no harm
_LONGEST_SPIN_MS = 60.0
POISON = 0x5A                       # of integers, which have no NaN


class NoDevice(Exception):
    """Why a device cannot be used, in words."""


class HostDevice:
    """NumPy arrays, kernels on the CPU device, the host's clock."""

    kind, target, name, arch = "host", "cpu", "the CPU device", "sm_90"
    library = np
    can_capture = False
    trial = True            # few repeats and buffers: nobody reads these times

    def random(self, shape: Sequence[int], seed: int, dtype: DType = DType.FLOAT32,
               layout: Layout = Layout.NCHW) -> Any:
        """Values in [-1, 1), the same for the same seed, drawn in the type itself, or all that an integer type has;
        four axes are (N, C, H, W) over memory in the order of ``layout``."""
        if dtype.is_integer:
            least, most = dtype.limits
            drawn = np.random.default_rng(seed).integers(least, most, tuple(shape), np.int64, endpoint=True)
            return _in_memory(drawn.astype(_numpy(dtype)), layout)
        values = np.random.default_rng(seed).random(tuple(shape), np.float32) * 2 - 1
        return _in_memory(values.astype(_numpy(dtype)), layout)

    def poisoned(self, shape: Sequence[int], dtype: DType = DType.FLOAT32, layout: Layout = Layout.NCHW) -> Any:
        """An array of NaN, of POISON for integers: what a kernel leaves unwritten shows."""
        return _in_memory(np.full(tuple(shape), POISON if dtype.is_integer else np.nan, _numpy(dtype)), layout)

    def poison(self, array: Any) -> None:
        """Make an array what poisoned() gives."""
        array[...] = POISON if self.is_integer(array) else float("nan")

    def is_integer(self, array: Any) -> bool:
        """Whether an array of this device has elements of an integer type."""
        return array.dtype.kind in "iu"

    def converted(self, array: Any, dtype: DType, layout: Layout) -> Any:
        """A copy of an array of axes (N, C, H, W) in another type, over memory in the order of ``layout``."""
        return _in_memory(array.astype(_numpy(dtype)), layout)

    def zeros(self, shape: Sequence[int]) -> Any:
        """Float64 zeros, to be summed into."""
        return np.zeros(tuple(shape))

    def indices(self, numbers: Sequence[int]) -> Any:
        """An array that indexes others of this device."""
        return self.library.asarray(numbers)

    def add_product(self, target: Any, a: Any, b: Any) -> None:
        """target += a * b; ``b`` is broadcast."""
        target += a * b

    def double(self, array: Any) -> Any:
        return array.astype(np.float64)

    def copy(self, target: Any, source: Any) -> None:
        np.copyto(target, source)

    def reversed(self, w: Any) -> Any:
        """A filter bank with its rows and columns turned round."""
        return w[..., ::-1, ::-1]

    def pointer(self, array: Any) -> int:
        return array.ctypes.data

    def stream(self) -> int:
        """Handle of the stream that the library's work goes to."""
        return 0

    def synchronize(self) -> None:
        pass

    def free(self) -> None:
        """Give unused memory back, the library's and the run time's."""

    def held_bytes(self) -> int:
        """Device memory that the run time's pool has; 0 on the host."""
        return 0

    def peak_bytes(self, call: Call) -> int:
        """Most device memory that the library had during a call, beyond what it had before. Raises NoDevice where the
        library does not tell."""
        raise NoDevice("its library does not tell how much memory a call takes")

    def sample(self, calls: Sequence[Call], count: int, hold_ms: float = 0.0) -> float:
        """Milliseconds that ``count`` calls take, one after the other, going round ``calls``."""
        start = time.perf_counter()
        for i in range(count):
            calls[i % len(calls)]()
        return 1e3 * (time.perf_counter() - start)

    def capture(self, calls: Sequence[Call], count: int) -> Call:
        """One call that replays ``count`` calls as a CUDA graph."""
        raise NoDevice("the host has no CUDA graphs")

    def specialize(self, shape: Any, plan: Any) -> Any:
        """The kernel of a plan on this device, for arrays with axes (N, C, H, W)."""
        import warpconv
        return warpconv.specialize(shape, plan=plan, device=self.target).for_axes(Layout.NCHW)


def _numpy(dtype: DType) -> Any:
    from warpconv.runtime.arrays import numpy_dtype
    return numpy_dtype(dtype)


def _in_memory(array: Any, layout: Layout) -> Any:
    """An array of axes (N, C, H, W), copied where memory is to have another order."""
    if layout is Layout.NCHW:
        return array
    return array.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2)


class _GpuDevice(HostDevice):
    """What the two GPU devices share: samples between two events, behind a spinning kernel."""

    trial = False

    def held_bytes(self) -> int:
        from warpconv.runtime.devices.cuda import contexts
        from warpconv.runtime.devices.cuda.memory import pool
        with contexts.activate(0):
            return pool.held_bytes()

    def _trim(self) -> None:
        from warpconv.runtime.devices.cuda import contexts
        from warpconv.runtime.devices.cuda.memory import keep_alive, pool
        with contexts.activate(0):
            keep_alive.sweep()
            pool.trim(captured=True)      # no graph of a measurement is replayed after it

    def sample(self, calls: Sequence[Call], count: int, hold_ms: float = 0.0) -> float:
        """As on the host, by CUDA events; the GPU spins for ``hold_ms`` while the calls are queued, so that the host's
        time does not show."""
        start, end = self._event(), self._event()
        if hold_ms > 0:
            self._spin(min(hold_ms, _LONGEST_SPIN_MS))
        start.record()
        for i in range(count):
            calls[i % len(calls)]()
        end.record()
        end.synchronize()
        return self._elapsed(start, end)

    def _event(self) -> Any:
        raise NotImplementedError

    def _elapsed(self, start: Any, end: Any) -> float:
        raise NotImplementedError

    def _spin(self, milliseconds: float) -> None:
        raise NotImplementedError


class TorchDevice(_GpuDevice):
    """GPU 0 through PyTorch, TF32 off, cuDNN in benchmark mode."""

    kind, target, can_capture = "torch", "cuda:0", True

    def __init__(self) -> None:
        try:
            import torch
        except Exception as error:      # a broken installation is a reason, too
            raise NoDevice(f"PyTorch cannot be imported ({error})") from None
        if not torch.cuda.is_available():
            raise NoDevice("PyTorch sees no GPU")
        self.torch = self.library = torch
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        torch.set_grad_enabled(False)
        self.device = torch.device("cuda", 0)
        torch.cuda.set_device(self.device)
        major, minor = torch.cuda.get_device_capability(0)
        self.arch, self.name = f"sm_{major}{minor}", torch.cuda.get_device_name(0)

    def random(self, shape: Sequence[int], seed: int, dtype: DType = DType.FLOAT32,
               layout: Layout = Layout.NCHW) -> Any:
        generator = self.torch.Generator(device=self.device)
        generator.manual_seed(seed)
        if dtype.is_integer:
            least, most = dtype.limits
            drawn = self.torch.randint(least, most + 1, tuple(shape), generator=generator, device=self.device,
                                       dtype=self.torch.int32)
            return self.converted(drawn, dtype, layout)
        values = self.torch.rand(tuple(shape), generator=generator, device=self.device,
                                 dtype=getattr(self.torch, dtype.value)) * 2 - 1
        return values.contiguous(memory_format=self.memory_format(layout))

    def poisoned(self, shape: Sequence[int], dtype: DType = DType.FLOAT32, layout: Layout = Layout.NCHW) -> Any:
        empty = self.torch.empty(tuple(shape), device=self.device, dtype=getattr(self.torch, dtype.value),
                                 memory_format=self.memory_format(layout))
        self.poison(empty)
        return empty

    def poison(self, array: Any) -> None:
        self._signed(array).fill_(POISON if self.is_integer(array) else float("nan"))

    def is_integer(self, array: Any) -> bool:
        return not array.dtype.is_floating_point

    def _signed(self, array: Any) -> Any:
        """The same memory; PyTorch has few operations on uint16."""
        return array.view(self.torch.int16) if array.dtype == self.torch.uint16 else array

    def memory_format(self, layout: Layout) -> Any:
        """PyTorch's name of an order in memory."""
        return self.torch.channels_last if layout is Layout.NHWC else self.torch.contiguous_format

    def zeros(self, shape: Sequence[int]) -> Any:
        return self.torch.zeros(tuple(shape), device=self.device, dtype=self.torch.float64)

    def indices(self, numbers: Sequence[int]) -> Any:
        return self.torch.tensor(numbers, device=self.device)

    def add_product(self, target: Any, a: Any, b: Any) -> None:
        target.addcmul_(a, b)

    def double(self, array: Any) -> Any:
        if array.dtype == self.torch.uint16:
            return (self._signed(array).int() & 0xFFFF).double()
        return array.double()

    def copy(self, target: Any, source: Any) -> None:
        target.copy_(source)

    def reversed(self, w: Any) -> Any:
        return w.flip(-1, -2)

    def pointer(self, array: Any) -> int:
        return array.data_ptr()

    def stream(self) -> int:
        return self.torch.cuda.current_stream().cuda_stream

    def synchronize(self) -> None:
        self.torch.cuda.synchronize()

    def free(self) -> None:
        self._trim()
        self.torch.cuda.empty_cache()

    def peak_bytes(self, call: Call) -> int:
        call()
        self.synchronize()
        self.torch.cuda.reset_peak_memory_stats()
        before = self.torch.cuda.memory_allocated()
        kept = call()
        self.synchronize()
        del kept
        return self.torch.cuda.max_memory_allocated() - before

    def converted(self, array: Any, dtype: DType, layout: Layout) -> Any:
        return array.to(getattr(self.torch, dtype.value)).clone(memory_format=self.memory_format(layout))

    def capture(self, calls: Sequence[Call], count: int) -> Call:
        graph, stream = self.torch.cuda.CUDAGraph(), self.torch.cuda.current_stream()
        try:
            # relaxed: a call may ask whether an event has passed, which the other modes forbid while capturing
            with self.torch.cuda.graph(graph, capture_error_mode="relaxed"):
                for i in range(count):
                    calls[i % len(calls)]()
        finally:
            self.torch.cuda.set_stream(stream)      # a capture that failed may leave its own stream current
        return graph.replay

    def _event(self) -> Any:
        return self.torch.cuda.Event(enable_timing=True)

    def _elapsed(self, start: Any, end: Any) -> float:
        return start.elapsed_time(end)

    def _spin(self, milliseconds: float) -> None:
        self.torch.cuda._sleep(int(milliseconds * _SPIN_CYCLES_PER_MS))


class CupyDevice(_GpuDevice):
    """GPU 0 through CuPy, where PyTorch is missing."""

    kind, target = "cupy", "cuda:0"

    def __init__(self) -> None:
        try:
            import cupy
            if cupy.cuda.runtime.getDeviceCount() == 0:
                raise NoDevice("CuPy sees no GPU")
        except NoDevice:
            raise
        except Exception as error:
            raise NoDevice(f"CuPy cannot be used ({error})") from None
        self.cupy = self.library = cupy
        self.arch = f"sm_{cupy.cuda.Device(0).compute_capability}"
        self.name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        self._spinner = cupy.RawKernel(
            'extern "C" __global__ void spin(long long cycles) { const long long start = clock64(); '
            "while (clock64() - start < cycles) { } }", "spin")

    def random(self, shape: Sequence[int], seed: int, dtype: DType = DType.FLOAT32,
               layout: Layout = Layout.NCHW) -> Any:
        if dtype.is_integer:
            least, most = dtype.limits
            drawn = self.cupy.random.RandomState(seed).randint(least, most + 1, tuple(shape), dtype=self.cupy.int32)
            return _in_memory(drawn.astype(self._dtype(dtype)), layout)
        values = self.cupy.random.RandomState(seed).rand(*shape, dtype=self.cupy.float32) * 2 - 1
        return _in_memory(values.astype(self._dtype(dtype)), layout)

    def poisoned(self, shape: Sequence[int], dtype: DType = DType.FLOAT32, layout: Layout = Layout.NCHW) -> Any:
        value = POISON if dtype.is_integer else float("nan")
        return _in_memory(self.cupy.full(tuple(shape), value, dtype=self._dtype(dtype)), layout)

    def zeros(self, shape: Sequence[int]) -> Any:
        return self.cupy.zeros(tuple(shape))

    def _dtype(self, dtype: DType) -> Any:
        if dtype is DType.BFLOAT16:
            raise NoDevice("CuPy has no bfloat16")
        return getattr(self.cupy, dtype.value)

    def double(self, array: Any) -> Any:
        return array.astype(self.cupy.float64)

    def copy(self, target: Any, source: Any) -> None:
        self.cupy.copyto(target, source)

    def pointer(self, array: Any) -> int:
        return array.data.ptr

    def stream(self) -> int:
        return self.cupy.cuda.get_current_stream().ptr

    def synchronize(self) -> None:
        self.cupy.cuda.runtime.deviceSynchronize()

    def converted(self, array: Any, dtype: DType, layout: Layout) -> Any:
        return _in_memory(array.astype(self._dtype(dtype)), layout)

    def free(self) -> None:
        self._trim()
        self.cupy.get_default_memory_pool().free_all_blocks()

    def _event(self) -> Any:
        return self.cupy.cuda.Event()

    def _elapsed(self, start: Any, end: Any) -> float:
        return self.cupy.cuda.get_elapsed_time(start, end)

    def _spin(self, milliseconds: float) -> None:
        self._spinner((1,), (1,), (self.cupy.int64(milliseconds * _SPIN_CYCLES_PER_MS),))


def open_device(wanted: str = "auto") -> Any:
    """The GPU ('auto', 'cuda') or the host ('cpu'). Raises NoDevice with the reasons where no GPU can be used."""
    if wanted == "cpu":
        return HostDevice()
    reasons = []
    for kind in (TorchDevice, CupyDevice):
        try:
            return kind()
        except NoDevice as error:
            reasons.append(str(error))
    raise NoDevice("; ".join(reasons))
