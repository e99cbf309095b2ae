"""Tensor maps for kernels of the tests, packed by hand, and NumPy's statement of what copies and products do."""

from __future__ import annotations

import struct

import numpy as np

from tests.runtime.devices.cpu_kernels.harness import KERNEL, program
from warpconv.runtime.devices.cpu import Buffer, LaunchReport, Mode, TensorMap, Toolchain

TEXT = "struct __align__(64) TensorMap { unsigned long long words[16]; };\n"
RING = KERNEL + """__launch_bounds__({threads}) k({parameters}) {{
    extern __shared__ __align__(1024) unsigned char shared[];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    unsigned long long* const full = (unsigned long long*)(shared + {barriers});
    {body}
}}"""


def pack(sizes, box, *, swizzle=0, im2col=False, element_strides=None, lower=(0, 0), upper=(0, 0), item=2, strides=None,
         address=0, rounded=False) -> bytes:
    """``struct wcpu_tensor_map``; dimensions innermost first, strides of an array without gaps where none are given."""
    rank = len(sizes)
    if strides is None:
        strides = [item * int(np.prod(sizes[:i])) for i in range(1, rank)]
    def filled(values, count, fill=0):
        return [*values, *[fill] * count][:count]

    return struct.pack("<Q4B8B5I4Q5I3i3iI", address, rank, im2col, item, swizzle, *filled(element_strides or [], 8, 1),
                       *filled(sizes, 5), *filled(strides, 4), *filled(box, 5), *filled(lower, 3), *filled(upper, 3),
                       rounded)


def of(buffer: Buffer, box, **how) -> TensorMap:
    """The map of a whole array: its last dimension is the innermost."""
    return TensorMap(buffer, pack(buffer.array.shape[::-1], box, item=buffer.array.itemsize, **how))


def ring(body: str, parameters: str, args: list, *, threads: int = 128, barriers: int = 65536, shared: int = 66560,
         mode: Mode = Mode.CHECK, toolchain: Toolchain | None = None, **launch) -> LaunchReport:
    """Run a kernel whose mbarriers begin ``barriers`` bytes into its shared memory."""
    text = TEXT + RING.format(threads=threads, parameters=parameters, barriers=barriers, body=body)
    grid = launch.pop("grid", (1, 1, 1))
    return program(text, mode, toolchain=toolchain).launch("k", grid=grid, block=(threads, 1, 1), shared_bytes=shared,
                                                           args=args, threads=launch.pop("workers", None), **launch)


def unswizzled(memory: np.ndarray, row_bytes: int) -> np.ndarray:
    """Rows as they were before the swizzle: of 16-byte cells, cell c of row r lies at c ^ (r % 8), or with rows
    of 64 bytes at c ^ (r / 2 % 4); memory begins at a multiple of 1024."""
    rows = memory.reshape(-1, row_bytes // 16, 16)
    r, c = np.indices(rows.shape[:2])
    return rows[r, c ^ (r % 8) if row_bytes == 128 else c ^ (r // 2 % 4)].reshape(-1, row_bytes)


def im2col(x: np.ndarray, start: int, pixels: int, c: int, channels: int, tap, *, outputs, stride, padding,
           dilation) -> np.ndarray:
    """Rows of the lowered matrix of an NHWC or NDHWC array, from output pixel ``start`` on, at one tap, with zeros
    outside."""
    rows = np.zeros((pixels, channels), x.dtype)
    for i in range(pixels):
        if start + i >= x.shape[0] * np.prod(outputs):
            continue
        n, *at = np.unravel_index(start + i, (x.shape[0], *outputs))
        met = [place * step - pad + which * apart
               for place, step, pad, which, apart in zip(at, stride, padding, tap, dilation)]
        if all(0 <= place < size for place, size in zip(met, x.shape[1:-1])):
            part = x[(n, *met, slice(c, c + channels))]
            rows[i, :len(part)] = part
    return rows
