"""Every number in the text of ``phases_gemm``.

A cell of the stride is a pixel of each phase (parts/phases.py). In the form ``apart`` a row of the product is a
channel, and each phase has a product of its own, over the taps that it meets. In the form ``together`` a row is a
channel of a phase, and all have one product over the outputs that any of them meets: a tap that a phase does not have
is zero. Where a filter is no longer than the stride, with the padding and dilation that go with it, no such tap is. The
form ``row`` does so along W alone.
"""

from __future__ import annotations

import math

from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.hardware import LANES
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.gemm.tiles import TileNumbers
from warpconv.codegen.parts.occupancy import blocks_by_quarters
from warpconv.codegen.parts.phases import NO_TAP, Products, products
from warpconv.codegen.plan import Argument
from warpconv.codegen.spec import KernelSpec

from .options import Form, PhasesGemmOptions

LANES_M, LANES_N = 4, 8         # of a warp along channels, along cells
VECTOR = 4                      # floats of a load from shared memory
ROW_PAD = 4                     # floats beside a cell's products in NHWC: eight cells lie in different banks
TURN_THREADS = 256              # of a block of the launch before
# registers of a thread besides sums and factors: addresses, loops, what is copied next (what ptxas takes on sm_80 and
# sm_90)
REGISTERS_BESIDE = 42


@dataclass(frozen=True)
class CellNumbers(TileNumbers):
    """Of a tile of channels x cells."""

    channels_last: bool             # NHWC: a cell's products lie side by side
    one_value: bool = False         # no border has one


@dataclass(frozen=True)
class PhasesGemmNumbers:
    """What the template writes besides spec and options."""

    gemm: CellNumbers
    arguments: tuple[Argument, ...]         # of the product's entry
    products: Products
    cell_pixels: int                        # that a row tells, with its channel,
    plane_pixels: int                       # and those of them of one plane
    beyond: tuple[str, ...]                 # along which axes a phase of its own may have no pixel in the last cell
    along: tuple[str, ...]                  # along which a row tells a cell's pixels
    has_gaps: bool                          # whether some pixels do not have some taps
    m_rows: int
    m_tiles: int
    filled_filters: int                     # of a tap: whole tiles
    tap_tiles: int
    guard_filters: bool                     # whether the last of a tap's tiles is filled up
    guard_rows: bool                        # whether the last rows of a tile are
    copy_vector: int                        # filters of a copy, and its bytes
    copy_bytes: int
    copy_columns: int                       # copies of a cell in a tile,
    copy_rows: int                          # cells that a block copies at once, of channels side by side
    store_vector: int
    turn_threads: int


def products_of(spec: KernelSpec, form: Form) -> Products:
    """The products of a layer in a form."""
    axes = len(spec.taps)
    joined = {Form.APART: (False,) * axes, Form.ROW: (False,) * (axes - 1) + (True,), Form.TOGETHER: (True,) * axes}
    return products(spec, joined[form])


def async_copies_of(spec: KernelSpec) -> bool:
    """Whether elements of dy are copied past the registers: as they are multiplied."""
    return spec.hardware.async_copies and spec.dtype is DType.FLOAT32


def copy_vector_of(spec: KernelSpec) -> int:
    """The widest copy that the filters of a group consist of; in NCHW they lie a plane apart."""
    if spec.layout is Layout.NCHW:
        return 1
    return next(vector for vector in (4, 2, 1) if spec.filters % vector == 0)


def threads_of(options: PhasesGemmOptions) -> int:
    return options.block_m * options.block_n // (options.thread_m * options.thread_n)


def pixel_row_of(spec: KernelSpec, options: PhasesGemmOptions) -> int:
    """Floats of a product's cells, in NHWC of a cell's products."""
    return options.block_k + ROW_PAD if spec.layout is Layout.NHWC else options.block_n


def stage_of(spec: KernelSpec, options: PhasesGemmOptions) -> int:
    rows = options.block_n if spec.layout is Layout.NHWC else options.block_k
    return options.block_k * options.block_m + rows * pixel_row_of(spec, options)


def registers_of(spec: KernelSpec, options: PhasesGemmOptions) -> int:
    """Of a thread: sums, factors, and the places that it copies from."""
    sums = options.thread_m * options.thread_n
    if spec.layout is Layout.NHWC:
        windows = options.block_n * options.block_k // (copy_vector_of(spec) * threads_of(options))
        return sums + VECTOR * options.thread_n + 2 * VECTOR + REGISTERS_BESIDE + windows * (1 + len(spec.taps))
    return sums + 2 * (options.thread_m + options.thread_n) + REGISTERS_BESIDE


def resident_of(spec: KernelSpec, options: PhasesGemmOptions) -> int:
    """Blocks that a multiprocessor holds."""
    shared = 4 * options.stages * stage_of(spec, options) + spec.hardware.shared_reserved
    by_registers = blocks_by_quarters(spec.hardware, registers_of(spec, options), threads_of(options) // LANES)
    return max(1, min(by_registers, spec.hardware.shared_multiprocessor // shared))


def resolved(spec: KernelSpec, options: PhasesGemmOptions) -> PhasesGemmOptions:
    """``options`` with every derived value in its place."""
    return replace(options, min_blocks=resident_of(spec, options)) if options.min_blocks == DERIVED else options


def _store_vector(spec: KernelSpec, options: PhasesGemmOptions) -> int:
    """Channels of a pixel, or pixels of a row, that a thread stores together."""
    if spec.dtype is not DType.FLOAT32:
        return 1
    if spec.layout is Layout.NHWC:
        return VECTOR if spec.channels % VECTOR == 0 else 1
    return 1 if options.form is Form.APART else options.store_vector


def make_numbers(spec: KernelSpec, options: PhasesGemmOptions, arguments: tuple[Argument, ...]) -> PhasesGemmNumbers:
    """All numbers of a plan whose values are resolved, and fit together."""
    m, n, k, threads = options.block_m, options.block_n, options.block_k, threads_of(options)
    nhwc, made, vector = spec.layout is Layout.NHWC, products_of(spec, options.form), copy_vector_of(spec)
    columns, pixels, axes = k // vector, math.prod(made.cell), "DHW"[-len(spec.taps):]
    rows = pixels * spec.channels
    filters = m * k // VECTOR
    gemm = CellNumbers(
        threads=threads, lanes_m=LANES_M, lanes_n=LANES_N, warps_m=m // (LANES_M * options.thread_m), vector=VECTOR,
        rows=n * columns // threads if nhwc else k * n // threads, a_rounds=-(-filters // threads),
        a_whole=filters % threads == 0, stages=options.stages, pixel_row=pixel_row_of(spec, options),
        stage=stage_of(spec, options), async_copies=async_copies_of(spec), registers_ahead=True, channels_last=nhwc,
        shared_bytes=4 * options.stages * stage_of(spec, options), registers=registers_of(spec, options))
    return PhasesGemmNumbers(
        gemm=gemm, arguments=arguments, products=made, cell_pixels=pixels,
        plane_pixels=math.prod(made.cell[-2:]), m_rows=rows, m_tiles=-(-rows // m),
        beyond=tuple(axis for axis, each, stride in zip(axes, made.cell, spec.stride) if each < stride),
        along=tuple(axis for axis, each in zip(axes, made.cell) if each > 1),
        has_gaps=any(NO_TAP in tap for tap in made.taps), filled_filters=-(-spec.filters // k) * k,
        tap_tiles=-(-spec.filters // k), guard_filters=spec.filters % k != 0,
        guard_rows=rows % m != 0, copy_vector=vector, copy_bytes=4 * vector, copy_columns=columns,
        copy_rows=threads // columns, store_vector=_store_vector(spec, options), turn_threads=TURN_THREADS)
