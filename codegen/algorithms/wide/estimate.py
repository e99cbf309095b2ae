"""What a layer costs with ``wide``, in issue slots."""

from __future__ import annotations

from warpconv.codegen.algorithm import BANK_COPY
from warpconv.codegen.hardware import LANES, QUARTERS
from warpconv.codegen.parts.latency import lone_thread
from warpconv.codegen.parts.weights import BankWeights
from warpconv.codegen.plan import Cost, KernelPlan
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import REGISTER_LIMIT, WideNumbers
from .options import Span, TapRows, WideOptions

MANY_CONSTANTS = 200          # from which they come late: 15x15 on 4096^2 takes 226 us, 17x17 373 (H100, 2026-11-25)
CACHED_CONSTANTS = 400        # weights that the constant cache keeps: 31x31 on 2048^2 takes 470 us, three times its
                              # products
FETCH_SLOTS = 1050            # issue slots of an H200 for an instruction of cold text: planes of 256^2 to 1024^2
CACHED_TEXT = 8000            # instructions that an instruction cache holds, about: 128 KB
LATER_TEXT = 0.2              # of FETCH_SLOTS for what it does not hold: other warps work meanwhile (13x13, 31x31,
                              # H200)
LONE_WARP = 1.15              # times as long as its slots a warp takes that has a quarter to itself, from 9x9 on
FEW_TAPS = 64                 # (2048^2: 9x9 and 13x13; 7x7 takes no longer than its work; H100, 2026-11-25)
SEVERAL_CHANNELS = 1.6        # slots of an instruction where rows of several channels follow each other, H200,
SEVERAL_HALF = 1.8            # and as many times that of 16 bits: first layers and groups of four, 1.2 to 3.1;
SEVERAL_GROUPS = 2.4          # of groups in 32 bits (4 and 8 channels on 56^2 to 7^2, stride 1 and 2: 1.9 to 3.7, H200)
PACKED, PACKED_HALF = 2.0, 4.0      # times as long planes of a warp take side by side: 7^2 to 28^2, stride 1 and 2,
                              # beside `staged`, which took 0.14 to 0.9 of their time where estimates were equal (22
                              # layers, H200, 2026-11-28)
SMALL_PLANE = 32 * 32         # pixels of the largest such plane
ROWS_AHEAD = 1.4              # of a thread's waits for float32, its rows are loaded ahead: groups of 4 and 8
                              # channels, one image, H200
SEAM_SLOTS = 6                # issue slots of a row of a seam: read, address and store
PASS_SLOTS = 4                # issue slots of a multiprocessor while its shared memory moves a word for each lane


def cost_of(spec: KernelSpec, options: WideOptions, numbers: WideNumbers, registers: int) -> Cost:
    """What a sub-block costs, as the banner and explain tell it."""
    rows = numbers.steps * numbers.step_rows
    outputs = f"{options.sub_block_rows} rows x {LANES * options.columns} columns"
    loads = numbers.own_loads + numbers.edge_loads + (numbers.line.elements > 0 and not numbers.packed)
    return Cost(unit=f"sub-block of {outputs}{', all channels' if spec.channels > 1 else ''}",
                warp_loads=rows * loads * spec.channels, shuffles=rows * len(numbers.takes) * spec.channels,
                fma=numbers.steps * numbers.taps * options.columns * spec.channels,
                registers=registers,
                direct_loads=options.sub_block_rows * options.columns * spec.r * spec.s * spec.channels,
                no_spills=registers <= REGISTER_LIMIT)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Warp instructions of the layer: products, exchanges, loads, stores and the loop's own. Several channels wait for
    shared memory between them, and the text of an unrolled stage has to come to every multiprocessor first."""
    options: WideOptions = plan.options
    numbers: WideNumbers = plan.numbers
    spec = plan.spec
    rows = options.sub_block_rows * numbers.classes if numbers.seams is None else numbers.block_rows
    bands = -(-shape.p // rows) * numbers.classes
    steps = shape.p + bands * (numbers.slots - 1)
    seams = bands * (options.warp_rows - 1) * numbers.seams.rows if numbers.seams else 0
    warps = bands if numbers.seams is None else bands * options.warp_rows
    needed = shape.p / steps if options.tap_rows is TapRows.NEEDED else 1      # of the products, about
    fma = numbers.taps * options.columns
    # a weight from shared memory takes a pass of it, for every lane, which is PASS_SLOTS issue slots
    shared = max(fma / 16, PASS_SLOTS * numbers.taps - fma) if options.weights is BankWeights.SHARED else 0
    if options.weights is BankWeights.CONSTANT and numbers.taps > MANY_CONSTANTS:
        shared = (2 if numbers.taps > CACHED_CONSTANTS else 0.5) * fma
    row = (numbers.own_loads + 2 * numbers.edge_loads + 2 * len(numbers.takes) + numbers.row_cells) * numbers.step_rows
    loads = 4 * (options.columns * spec.stride[1] // options.vector - 1)
    across = 1 if numbers.packed else -(-shape.q // numbers.strip)
    planes = shape.n * spec.k / (numbers.planes if numbers.packed else 1)
    setup = 60 + numbers.taps * (1 if options.weights is BankWeights.REGISTERS else 0.2)
    several = SEVERAL_HALF if spec.dtype.is_half else SEVERAL_GROUPS if spec.groups > 1 else 1.0
    waits = SEVERAL_CHANNELS * several if spec.channels > 1 else 1.0
    text = fma * numbers.slots
    fetched = min(text, CACHED_TEXT) + LATER_TEXT * max(0, text - CACHED_TEXT)
    start = spec.hardware.issue_slots(FETCH_SLOTS * fetched + BANK_COPY * (options.weights is BankWeights.CONSTANT))
    step = waits * spec.channels * (needed * (fma + shared) + row + loads) + 12
    work: float = planes * across * (steps * step + warps * setup + seams * (SEAM_SLOTS + options.columns))
    alone = lone_thread(spec, shape.reduction / (1.0 if spec.dtype.is_half else ROWS_AHEAD), 1.0)
    # what one warp takes to go down its sub-block, however few there are
    down = (min(options.sub_block_rows, shape.p) + numbers.slots - 1) * step * LONE_WARP
    down *= spec.hardware.warps_of(QUARTERS)
    if numbers.packed and shape.h * shape.w <= SMALL_PLANE:
        work *= PACKED_HALF if spec.dtype.is_half else PACKED
    many = options.span is Span.STRIPS and numbers.taps > FEW_TAPS
    return start + max(work, alone, down if many else 0)
