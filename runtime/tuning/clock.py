"""The devices that configurations are timed on: a GPU by CUDA events, the CPU device by the host's clock."""

from __future__ import annotations

import itertools
import math
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import DeviceError
from warpconv.codegen.hardware import DEFAULT_ARCH, Arch
from warpconv.codegen.plan import KernelPlan

Call = Callable[[], Any]

SAMPLES, FEWEST_SAMPLES = 20, 3
SAMPLE_MS = 0.5                 # work of one sample, so that the events' resolution does not show
MOST_CALLS = 200                # of one sample: the driver's queue has room for about a thousand
HOLD_BYTES = 256 << 20          # scratch memory whose filling holds the stream back while calls are queued
MOST_HOLD_MS = 60.0
MOST_SETS, TIMES_THE_CACHE = 64, 4


@dataclass(frozen=True)
class Sampled:
    """Microseconds a call: the median of ``samples``, and the 10th and 90th percentile."""

    us: float
    low: float
    high: float
    samples: int


class CpuClock:
    """NumPy arrays, kernels on the CPU device. Its times tell nothing of a GPU."""

    target, device = "cpu", "CPU device"
    arch = DEFAULT_ARCH
    errors: tuple[type[Exception], ...] = ()        # what a launch may raise besides warpconv's own
    cache_bytes = 0             # buffers are not rotated: what is timed takes far longer than any cache's misses

    def array(self, values: np.ndarray) -> Any:
        return values.copy()

    def host(self, array: Any) -> np.ndarray:
        return array

    def fill(self, array: Any, values: np.ndarray) -> None:
        np.copyto(array, values)

    def synchronize(self) -> None:
        pass

    def sample(self, calls: Sequence[Call], hold_ms: float) -> float:
        """Milliseconds that the calls take, one after the other."""
        start = time.perf_counter()
        for call in calls:
            call()
        return 1e3 * (time.perf_counter() - start)

    def copier(self, source: Any, target: Any) -> Call:
        return lambda: np.copyto(target, source)

    def build(self, plan: KernelPlan) -> None:
        """Compile into the disk cache."""
        from warpconv.runtime.devices.cpu import backend
        backend.load(plan)

    def versions(self) -> dict[str, str]:
        from warpconv.runtime import env
        from warpconv.runtime.devices.cpu.toolchain import find_toolchain
        return {"driver": platform.machine(), "cuda": "none", "compiler": find_toolchain(env.settings().cxx).version()}

    def close(self) -> None:
        pass


class CudaClock(CpuClock):
    """A GPU through PyCUDA, in its primary context, on the default stream. Raises DeviceError where that cannot be."""

    def __init__(self, ordinal: int):
        from warpconv.runtime.devices.cuda import contexts
        self.target, self.device = f"cuda:{ordinal}", contexts.name(ordinal)
        self.arch = Arch.read(contexts.arch(ordinal))
        self._driver = contexts.driver()
        self.errors = (self._driver.Error,)
        self._context = self._driver.Device(ordinal).retain_primary_context()
        attribute = self._driver.device_attribute.L2_CACHE_SIZE
        self.cache_bytes = TIMES_THE_CACHE * self._driver.Device(ordinal).get_attribute(attribute)
        self._context.push()
        try:
            self._scratch = self._driver.mem_alloc(HOLD_BYTES)
        except self._driver.Error as error:
            self._context.pop()
            raise DeviceError(f"the GPU has no memory left ({error})", argument="device", value=self.target,
                              hint="end what else runs on it") from error
        self._hold()
        self._hold_ms = min(self._timed([self._hold])[1] for _ in range(3))

    def array(self, values: np.ndarray) -> Any:
        import pycuda.gpuarray as gpuarray
        return gpuarray.to_gpu(values)

    def host(self, array: Any) -> np.ndarray:
        return array.get()

    def fill(self, array: Any, values: np.ndarray) -> None:
        array.set(values)

    def synchronize(self) -> None:
        self._driver.Context.synchronize()

    def sample(self, calls: Sequence[Call], hold_ms: float) -> float:
        """As on the host, by events; the stream is busy for ``hold_ms`` before, while the calls are queued, so that the
        host's time does not show. Where it was not busy for long enough, once more with twice that: the host may have
        other work, such as the compilation of what is timed next."""
        while True:
            for _ in range(math.ceil(min(hold_ms, MOST_HOLD_MS) / self._hold_ms)):
                self._hold()
            begun, took = self._timed(calls)
            if not begun or not 0 < hold_ms < MOST_HOLD_MS:
                return took
            hold_ms *= 2

    def copier(self, source: Any, target: Any) -> Call:
        return lambda: self._driver.memcpy_dtod_async(target.gpudata, source.gpudata, target.nbytes)

    def build(self, plan: KernelPlan) -> None:
        from warpconv.runtime.build.pipeline import build
        build(plan)

    def versions(self) -> dict[str, str]:
        from warpconv.runtime.build import compilers
        kind = compilers.choose()
        version = self._driver.get_driver_version()
        return {"driver": _driver_version(), "cuda": f"{version // 1000}.{version % 1000 // 10}",
                "compiler": f"{kind.value} {compilers.version_of(kind) or ''}".strip()}

    def close(self) -> None:
        try:
            self._scratch.free()
            self._context.pop()
        except self._driver.Error:      # a context that a kernel has broken; why it did is on its way already
            pass

    def _hold(self) -> None:
        self._driver.memset_d32_async(int(self._scratch), 0, HOLD_BYTES // 4)

    def _timed(self, calls: Sequence[Call]) -> tuple[bool, float]:
        """Whether the GPU had begun before all calls were queued, and their milliseconds."""
        start, end = self._driver.Event(), self._driver.Event()
        start.record()
        for call in calls:
            call()
        begun = start.query()
        end.record()
        end.synchronize()
        return begun, start.time_till(end)


def open_clock(target: str) -> CpuClock:
    """The clock of "cpu" or "cuda:N". Raises DeviceError."""
    return CpuClock() if target == "cpu" else CudaClock(int(target.partition(":")[2]))


def sets_of(clock: CpuClock, nbytes: int) -> int:
    """How many sets of buffers of ``nbytes`` are gone round, so that none is still in the GPU's cache."""
    return max(1, min(MOST_SETS, math.ceil(clock.cache_bytes / nbytes)))


def measure(clock: CpuClock, calls: Sequence[Call], *, seconds: float = 2.0) -> Sampled:
    """The time of one of ``calls``, which do the same on different buffers and are gone round, warm.

    20 samples, fewer where they would take longer than ``seconds`` (at least 3).
    """
    ring = itertools.cycle(calls)
    deadline = time.perf_counter() + seconds
    clock.sample(calls, 0.0)                        # the first time is not like the others
    start = time.perf_counter()
    for call in calls:
        call()
    host_ms = 1e3 * (time.perf_counter() - start) / len(calls)
    clock.synchronize()
    each = clock.sample(calls, 0.05 + 1.2 * host_ms * len(calls)) / len(calls)
    count = max(1, min(math.ceil(SAMPLE_MS / max(each, 1e-6)), MOST_CALLS))
    samples: list[float] = []
    while len(samples) < SAMPLES and (len(samples) < FEWEST_SAMPLES or time.perf_counter() < deadline):
        taken = list(itertools.islice(ring, count))
        samples.append(1e3 * clock.sample(taken, 0.05 + 1.2 * host_ms * count) / count)
    samples.sort()
    tail = len(samples) // 10
    return Sampled(statistics.median(samples), samples[tail], samples[-1 - tail], len(samples))


def _driver_version() -> str:
    """NVIDIA's number of the driver, as nvidia-smi tells it; "unknown" where it does not."""
    try:
        text = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"],
                              capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return text.strip().splitlines()[0] if text.strip() else "unknown"
