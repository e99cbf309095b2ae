"""Sizes of a form march: the outputs that are under way, the tile of a plane, shared memory and registers."""

from __future__ import annotations

from typing import Any

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType
from warpconv.codegen.hardware import LANES
from warpconv.codegen.parts.occupancy import step_registers
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Numerics

from .options import VolumeOptions

SHARED_VECTOR = 4       # floats of a load from shared memory
COPIED = 4              # elements of a copied vector
MOST_AHEAD = 40         # taps that compilers may load ahead of all planes: 49 to 121 spilled 612 to 2348 bytes
SEVERAL_CHANNELS = 8    # registers for the way from one channel of a group to the next


@dataclass(frozen=True)
class TileNumbers:
    """The tile of a plane that a block meets, and its copies to shared memory."""

    threads: int
    rows: int
    columns: int
    pitch: int              # floats from one row of the tile to the next
    lead: int               # columns before those that are met, so that copied vectors begin at their multiples
    vector_copies: int      # of a thread, vectors of COPIED elements; 0 where elements are copied one by one:
    row_copies: int         # in so many rows and columns by each thread
    column_copies: int
    patch_columns: int      # that a thread's outputs meet with one filter row:
    before: int             # so many one by one,
    vectors: int            # then vectors; the rest one by one
    past_registers: bool    # copied to shared memory without going through registers
    pending: int            # tiles that are still on their way while one is worked on

    @property
    def floats(self) -> int:
        return self.rows * self.pitch

    @property
    def copies(self) -> int:
        """Loads of a thread for a tile."""
        return self.vector_copies or self.row_copies * self.column_copies

    @property
    def copied(self) -> int:
        """Elements that a thread copies of a tile."""
        return self.vector_copies * COPIED or self.copies


@dataclass(frozen=True)
class MarchNumbers:
    """What the template of ``march`` writes besides spec and options."""

    tile: TileNumbers
    slots: int              # output planes that a plane of the input is added to, or comes before
    k_tiles: int            # tiles of filters, of all groups
    weights: int            # floats of the filters' room
    row_by_row: bool        # whether rows of taps are loaded one after the other, for all planes anew
    shared_bytes: int
    min_blocks: int

    def filled(self, spec: KernelSpec) -> int:
        """Blocks that the chip holds at a time."""
        return self.min_blocks * spec.hardware.multiprocessors


@dataclass(frozen=True)
class LoopsNumbers:
    """What the template of ``loops`` writes besides spec and options."""

    threads: int
    min_blocks: int = 1


def slots_of(spec: KernelSpec) -> int:
    """Output planes that are under way: whose windows have begun and not ended."""
    return -(-spec.extents[0] // spec.stride[0])


def past_registers(spec: KernelSpec) -> bool:
    """Whether planes can be copied to shared memory as they are: asynchronous copies have at least 4 bytes."""
    return spec.dtype is DType.FLOAT32 and spec.numerics is Numerics.FLOAT32 and spec.hardware.async_copies


def tile_numbers(spec: KernelSpec, options: Any, tap_rows: int) -> TileNumbers:
    """The tile for ``tap_rows`` rows of a filter; ``options`` are those of a form march."""
    across, down = options.block_size_x * options.columns, options.block_size_y * options.rows
    threads = options.block_size_x * options.block_size_y
    rows = (down - 1) * spec.stride[1] + (tap_rows - 1) * spec.dilation[1] + 1
    by_vectors = options.load_vector > 1
    lead = -spec.padding[2][0] % COPIED if by_vectors else 0
    columns = lead + (across - 1) * spec.stride[2] + spec.extents[2]
    pitch = -(-columns // SHARED_VECTOR) * SHARED_VECTOR
    patch = (options.columns - 1) * spec.stride[2] + spec.extents[2]
    aligned = options.columns * spec.stride[2] % SHARED_VECTOR == 0
    before = min(-lead % SHARED_VECTOR, patch) if aligned else 0
    return TileNumbers(
        threads=threads, rows=rows, columns=columns, pitch=pitch, lead=lead, patch_columns=patch, before=before,
        vector_copies=-(-rows * pitch // (COPIED * threads)) if by_vectors else 0,
        row_copies=0 if by_vectors else -(-rows // (threads // LANES)),
        column_copies=0 if by_vectors else -(-columns // LANES),
        vectors=(patch - before) // SHARED_VECTOR if aligned else 0, past_registers=past_registers(spec),
        pending=options.stages - 2)


def load_vectors(spec: KernelSpec, shape: ConvShape | None) -> int:
    """Elements of the input that can be copied at once where rows of this layer begin alike."""
    whole = shape is not None and shape.w % COPIED == 0
    return COPIED if whole and vectors_refusal(spec, COPIED) is None else 1


def vectors_refusal(spec: KernelSpec, load_vector: int) -> str | None:
    if load_vector not in (1, COPIED):
        return f"load_vector = {load_vector}: 1 or {COPIED}"
    if load_vector > 1 and (spec.padding_mode is not Border.ZEROS or not spec.dtype.is_float):
        return f"load_vector = {load_vector} is for floats with zeros outside"
    return None


def load_demands(spec: KernelSpec, load_vector: int) -> dict[str, int]:
    """What copied vectors ask of rows and of the input's address."""
    return {"W": load_vector, "x": load_vector * spec.dtype.itemsize} if load_vector > 1 else {}


def march_numbers(spec: KernelSpec, options: VolumeOptions, min_blocks: int = 1) -> MarchNumbers:
    tile = tile_numbers(spec, options, spec.taps[1])
    weights = options.k_tile * spec.reduction
    weights = -(-weights // SHARED_VECTOR) * SHARED_VECTOR
    return MarchNumbers(tile=tile, slots=slots_of(spec), k_tiles=spec.k // options.k_tile, weights=weights,
                        row_by_row=spec.channels == spec.taps[0] == 1 and spec.r * spec.s > MOST_AHEAD,
                        shared_bytes=4 * (weights + options.stages * tile.floats), min_blocks=min_blocks)


def registers_of(spec: KernelSpec, options: VolumeOptions, made: MarchNumbers) -> int:
    """Planned registers of a thread: sums, a filter row of each plane, the patch's row, copies on their way."""
    outputs = options.rows * options.columns * options.k_tile
    weights = min(spec.taps[0], 8) * spec.s * options.k_tile
    return (28 + made.slots * outputs + weights + made.tile.patch_columns * options.rows
            + copy_registers(spec, made.tile) + step_registers(spec, outputs))


def copy_registers(spec: KernelSpec, tile: TileNumbers) -> int:
    """Registers of where copies come from, and of what is on its way to shared memory."""
    words = spec.dtype.itemsize / 4 if spec.dtype.is_float else 1
    beside = 2 if spec.stride[2] > 1 and not tile.vector_copies else 0      # of a copy on its way, its address
    places = tile.vector_copies or tile.column_copies
    channels = SEVERAL_CHANNELS if spec.channels > 1 else 0
    return places + channels + (0 if tile.past_registers else int(tile.copied * words + tile.copies * beside))
