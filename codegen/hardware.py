"""GPUs in numbers: the architecture that a kernel is generated for, its limits, and the chip at hand if one is known.

This is the one table. Planners ask ``spec.hardware`` for what a GPU has, and name a figure of the H200, on which their
rules were measured, from here. Limits are of the CUDA C++ programming guide, "Technical Specifications per Compute
Capability", and CCCL's ``cuda/__device/arch_traits.h``; first-level and second-level caches and multiprocessors of
NVIDIA's architecture papers.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
from typing import Any

from .classes import dataclass, replace
from .errors import ArgumentError

_PATTERN = re.compile(r"(?:sm_|compute_)?(\d+)\.?(\d)([af]?)")

# The same on every architecture from 7.5 to 12.1
LANES = 32                              # threads of a warp
BLOCK_THREADS = 1024
GRID_LIMIT = (2**31 - 1, 65535, 65535)  # gridDim.x, .y and .z
SHARED_STATIC = 48 * 1024               # bytes of a block's static shared memory; more is asked for at the launch
CONSTANT_BYTES = 64 * 1024              # of a module
REGISTER_FILE = 64 * 1024               # 32-bit registers of a multiprocessor
THREAD_REGISTERS = 255
REGISTER_UNIT = 8                       # registers that a thread gets at a time
QUARTERS = 4                            # of a multiprocessor: each issues for its own warps, from its own registers
BANKS = 32                              # of shared memory, 4 bytes wide
SECTOR_BYTES = 32                       # of memory, at once
LINE_BYTES = 128                        # of memory, in one piece
PORTABLE_SHARED = 99 * 1024             # bytes that a block can ask for on all architectures from 8.0 on
PORTABLE_BLOCKS = 16                    # blocks that a multiprocessor of each of them holds

OLDEST, NEWEST = 7, 12      # major compute capabilities: the first with the shuffles used, the last that is known


@dataclasses.dataclass(frozen=True, order=True)
class Arch:
    """Compute capability ``major.minor`` and, for targets such as sm_90a, the feature letter."""

    major: int
    minor: int
    feature: str = ""

    @classmethod
    def parse(cls, value: Arch | str, argument: str = "arch") -> Arch:
        """``"sm_90"``, ``"sm_90a"``, ``"9.0"`` or ``"90"`` as an Arch. Raises ArgumentError for what is none, or none
        that kernels are generated for."""
        arch = cls.read(value, argument)
        if not isinstance(value, cls) and not OLDEST <= arch.major <= NEWEST:
            raise ArgumentError(f"kernels are generated for compute capability {OLDEST}.0 to {NEWEST}.x",
                                argument=argument, value=value, hint="for instance sm_80, sm_90 or sm_120")
        return arch

    @classmethod
    def read(cls, value: Arch | str, argument: str = "arch") -> Arch:
        """The same of what a driver or a file says, where a GPU may be newer than the table: it has the plans of the
        newest row, and the compiler decides."""
        if isinstance(value, cls):
            return value
        match = _PATTERN.fullmatch(str(value))
        if match is None:
            raise ArgumentError("not a GPU architecture", argument=argument, value=value,
                                hint="write it like sm_80, sm_90 or 9.0")
        return cls(int(match[1]), int(match[2]), match[3])

    def __str__(self) -> str:
        return f"sm_{self.major}{self.minor}{self.feature}"


# The text for a machine without a GPU: today's data-centre chip, so that what is read and executed is what most run.
DEFAULT_ARCH = Arch(9, 0)


class TensorCores(enum.Enum):
    """The widest matrix instructions of a target; those before it are there, too, where the target has no letter."""

    MMA = "mma"             # of a warp, operands in registers
    WGMMA = "wgmma"         # of four warps, operands in shared memory: sm_90a alone
    TCGEN05 = "tcgen05"     # with sums in a memory of their own: sm_100a, sm_103a, sm_110a


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """What a GPU has: its architecture's limits, and the size of the chip (the architecture's largest common one, or
    that at hand). Memory is in bytes."""

    arch: Arch
    multiprocessors: int
    l2_bytes: int
    shared_multiprocessor: int      # shared memory of a multiprocessor,
    shared_reserved: int            # what the system takes of it for each block,
    cached_multiprocessor: int      # and both with the first-level cache, which has what blocks leave
    resident_threads: int           # of a multiprocessor, at most
    resident_blocks: int
    float_lanes: int                # float32 FMAs of a multiprocessor in a cycle
    mma_tf32: int                   # TF32 FMAs of one by mma.sync, 0 where there are none
    tensor_cores: TensorCores

    @classmethod
    def of(cls, arch: Arch | str, *, multiprocessors: int | None = None, l2_bytes: int | None = None) -> Hardware:
        """The architecture's row; ``multiprocessors`` and ``l2_bytes`` are those of the chip at hand, where one is
        known. An architecture without a row has that of the nearest one before it. Raises ArgumentError for no
        architecture, or sizes below 1."""
        row = _row_of(Arch.parse(arch))
        given = (("multiprocessors", multiprocessors), ("l2_bytes", l2_bytes))
        sizes: dict[str, Any] = {name: value for name, value in given if value is not None}
        for name, value in sizes.items():
            if value < 1:
                raise ArgumentError("a GPU has at least one", argument=name, value=value)
        return replace(row, **sizes) if sizes else row

    @classmethod
    def parse(cls, value: Hardware | Arch | str) -> Hardware:
        """Hardware as it is, an architecture's as ``of``."""
        return value if isinstance(value, Hardware) else cls.of(value)

    @property
    def at_hand(self) -> Hardware | None:
        """This GPU where it is another chip than its architecture's row."""
        return None if self == _row_of(self.arch) else self

    @property
    def resident_warps(self) -> int:
        """Warps of a multiprocessor, at most."""
        return self.resident_threads // LANES

    @property
    def shared_block(self) -> int:
        """Bytes of shared memory that a block can ask for when it is launched."""
        return self.shared_multiprocessor - self.shared_reserved

    @property
    def async_copies(self) -> bool:
        """Whether threads copy from global to shared memory without waiting (cp.async)."""
        return self.arch.major >= 8

    @property
    def bulk_copies(self) -> bool:
        """Whether the tensor memory accelerator copies whole tiles (TMA)."""
        return self.arch.major >= 9

    @property
    def early_launches(self) -> bool:
        """Whether a launch may begin while the one before it ends (programmatic dependent launch)."""
        return self.arch.major >= 9

    def share_of_shared(self, of_h200: int) -> int:
        """As much of a multiprocessor's shared memory as ``of_h200`` bytes are of an H200's."""
        return self.shared_multiprocessor * of_h200 // H200.shared_multiprocessor

    def warps_of(self, each: int) -> int:
        """Warps (or blocks) of the whole GPU where a multiprocessor has ``each``."""
        return self.multiprocessors * each

    @property
    def copied_bytes(self) -> float:
        """Bytes that a copy reads and writes in a cycle: an H200's, scaled to the multiprocessors."""
        return H200_COPY / H200_CLOCK * self.multiprocessors / H200.multiprocessors

    def issue_slots(self, on_h200: float) -> float:
        """Issue slots that pass on this GPU in the time in which ``on_h200`` pass on an H200, at the same clock."""
        return on_h200 * self.multiprocessors / H200.multiprocessors


_KB, _MB = 1024, 1024 * 1024
# arch: multiprocessors, L2 (of its largest common chip); shared memory of a multiprocessor, with its cache (KB);
# resident threads, blocks; FP32 lanes; TF32 FMAs a cycle: dense TF32 FLOP/s of NVIDIA's data sheets (A100 156e12, A40
# 75e12, L40S 183e12, RTX PRO 6000 252e12) over two, multiprocessors and clock. Of the H100's 1024 (495e12) mma.sync is
# taken to reach half, as it was measured to in 16 bits; from 10.0 on as much is assumed where no data sheet says less.
_ROWS = {
    (7, 5): (40, 4 * _MB, 64, 96, 1024, 16, 64, 0),          # T4
    (8, 0): (108, 40 * _MB, 164, 192, 2048, 32, 64, 512),    # A100
    (8, 6): (84, 6 * _MB, 100, 128, 1536, 16, 128, 256),     # A40, RTX A6000
    (8, 7): (16, 4 * _MB, 164, 192, 1536, 16, 128, 256),     # Orin
    (8, 9): (142, 96 * _MB, 100, 128, 1536, 24, 128, 256),   # L40S
    (9, 0): (132, 50 * _MB, 228, 256, 2048, 32, 128, 512),   # H100, H200
    (10, 0): (148, 126 * _MB, 228, 256, 2048, 32, 128, 512), # B200
    (10, 3): (148, 126 * _MB, 228, 256, 2048, 32, 128, 512), # B300
    (11, 0): (20, 32 * _MB, 228, 256, 1536, 24, 128, 512),   # Thor
    (12, 0): (188, 128 * _MB, 100, 128, 1536, 24, 128, 256), # RTX PRO 6000
    (12, 1): (48, 24 * _MB, 100, 128, 1536, 24, 128, 256)}   # GB10


@functools.cache
def _row_of(arch: Arch) -> Hardware:
    known = [row for row in _ROWS if row <= (arch.major, arch.minor)]
    multiprocessors, l2, shared, cached, threads, blocks, lanes, tf32 = _ROWS[max(known, default=min(_ROWS))]
    return Hardware(arch=arch, multiprocessors=multiprocessors, l2_bytes=l2, shared_multiprocessor=shared * _KB,
                    shared_reserved=_KB if arch.major >= 8 else 0, cached_multiprocessor=cached * _KB,
                    resident_threads=threads, resident_blocks=blocks, float_lanes=lanes, mma_tf32=tf32,
                    tensor_cores=_tensor_cores(arch))


def _tensor_cores(arch: Arch) -> TensorCores:
    if not arch.feature or arch.major not in (9, 10, 11):
        return TensorCores.MMA
    return TensorCores.WGMMA if arch.major == 9 else TensorCores.TCGEN05


# ---- the GPU that the planners' rules and estimates were fitted to (docs/results)

H200 = Hardware.of(DEFAULT_ARCH)
H200_CLOCK = 1.98e9             # cycles a second
H200_COPY = 4.2e12              # bytes a second that a copy reaches, read and written
H200_LATENCY = 700e-9           # seconds from a load that misses all caches to its data
# Shared memory of a multiprocessor that blocks are planned for: nearly all of it, or what leaves the first-level cache
# 60 KB of 256 (more takes all but 28; the driver gives shared memory in steps)
H200_SHARED_FILLED = 200 * _KB
H200_SHARED_BESIDE_CACHE = 196 * _KB
