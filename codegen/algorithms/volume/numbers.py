"""Sizes of ``march``: the outputs that are under way, the tile of a plane, shared memory and registers."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType
from warpconv.codegen.hardware import LANES
from warpconv.codegen.parts.occupancy import step_registers
from warpconv.codegen.spec import KernelSpec, Numerics

from .options import VolumeOptions

SHARED_VECTOR = 4       # floats of a load from shared memory


@dataclass(frozen=True)
class MarchNumbers:
    """What the template of ``march`` writes besides spec and options."""

    threads: int
    slots: int              # output planes that a plane of the input is added to, or comes before
    k_tiles: int            # tiles of filters, of all groups
    tile_rows: int          # of a plane, that a block's outputs meet
    tile_columns: int
    pitch: int              # floats from one row of the tile to the next
    row_copies: int         # rows and columns of it that a thread copies
    column_copies: int
    patch_columns: int      # that a thread's outputs meet with one filter row
    vectors: int            # of these columns, so many vectors; the rest one by one
    weights: int            # floats of the filters' room
    shared_bytes: int
    past_registers: bool    # copied to shared memory without going through registers
    pending: int            # tiles that are still on their way while one is added
    min_blocks: int


@dataclass(frozen=True)
class LoopsNumbers:
    """What the template of ``loops`` writes besides spec and options."""

    threads: int


def slots_of(spec: KernelSpec) -> int:
    """Output planes that are under way: whose windows have begun and not ended."""
    return -(-spec.extents[0] // spec.stride[0])


def past_registers(spec: KernelSpec) -> bool:
    """Whether planes can be copied to shared memory as they are: asynchronous copies have at least 4 bytes."""
    return spec.dtype is DType.FLOAT32 and spec.numerics is Numerics.FLOAT32 and spec.hardware.async_copies


def march_numbers(spec: KernelSpec, options: VolumeOptions, min_blocks: int = 1) -> MarchNumbers:
    across, down = options.block_size_x * options.columns, options.block_size_y * options.rows
    threads = options.block_size_x * options.block_size_y
    rows = (down - 1) * spec.stride[1] + spec.extents[1]
    columns = (across - 1) * spec.stride[2] + spec.extents[2]
    pitch = -(-columns // SHARED_VECTOR) * SHARED_VECTOR
    patch = (options.columns - 1) * spec.stride[2] + spec.extents[2]
    aligned = options.columns * spec.stride[2] % SHARED_VECTOR == 0
    weights = options.k_tile * spec.reduction
    weights = -(-weights // SHARED_VECTOR) * SHARED_VECTOR
    return MarchNumbers(
        threads=threads, slots=slots_of(spec), k_tiles=spec.k // options.k_tile, tile_rows=rows, tile_columns=columns,
        pitch=pitch, row_copies=-(-rows // (threads // LANES)), column_copies=-(-columns // LANES),
        patch_columns=patch, vectors=patch // SHARED_VECTOR if aligned else 0, weights=weights,
        shared_bytes=4 * (weights + options.stages * rows * pitch), past_registers=past_registers(spec),
        pending=options.stages - 2, min_blocks=min_blocks)


def registers_of(spec: KernelSpec, options: VolumeOptions, made: MarchNumbers) -> int:
    """Planned registers of a thread: sums, a filter row of each plane, the patch's row, copies on their way."""
    outputs = options.rows * options.columns * options.k_tile
    words = spec.dtype.itemsize / 4 if spec.dtype.is_float else 1
    beside = 2 if spec.stride[2] > 1 else 0     # of a copy on its way, its address
    ahead = 0 if made.past_registers else int(made.row_copies * made.column_copies * (words + beside))
    weights = min(spec.taps[0], 8) * spec.s * options.k_tile
    return (28 + made.slots * outputs + weights + made.patch_columns * options.rows + made.column_copies + ahead
            + step_registers(spec, outputs))
