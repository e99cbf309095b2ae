"""An empty kernel, compiled and loaded by warpconv: what it takes to launch anything."""

from __future__ import annotations

from typing import Any

from .devices import NoDevice
from .harness import measure

SOURCE = 'extern "C" __global__ void empty_kernel() { }\n'
LAUNCHES = 200      # in one graph


def launch_time(device: Any) -> dict[str, Any]:
    """Milliseconds of one launch among many of an empty kernel, one block of 32 threads, on the device's stream.

    Replayed as a CUDA graph where the device captures, so that the host plays no part. Raises NoDevice without a GPU.
    """
    if device.kind == "host":
        raise NoDevice("no GPU")
    from warpconv.runtime.build.compilers import compile_source
    from warpconv.runtime.devices.cuda.modules import CudaModule
    device.synchronize()                    # makes the library's context current
    cubin = compile_source(SOURCE, arch=device.arch, name="empty_kernel.cu").cubin
    launch = CudaModule(cubin).launcher("empty_kernel", (), (32, 1, 1))
    return measure(device, [lambda: launch((1, 1, 1), (), device.stream())] * LAUNCHES).fields()
