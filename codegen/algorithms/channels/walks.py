"""``channels`` with lines, for up to some tens of images: the walk of the fewest cycles.

A GPU has few blocks then, and how many, how long each takes and how many are resident decide. The rules of ``lines``
are for many images (H200, batch 128: 0.98 of the quickest of 50 walks): one image of 192 channels, 28^2, in float32
under 3x3 took 10.7 us by them, and takes 2.8 as it is walked here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

from warpconv.codegen.batch import FEW_IMAGES, SOME_IMAGES
from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.hardware import LANES, QUARTERS, SECTOR_BYTES, SHARED_STATIC
from warpconv.codegen.spec import KernelSpec

from .lines import LINES_THREADS, resident_lines, threads_of_channels, threads_that_fit
from .numbers import BlockLine, ChannelsNumbers, ChannelsOptions, Width, line_of, numbers_of, registers_of

UNITS, COLUMNS = (1, 2, 4), (7, 5, 4, 3, 2, 1)      # of a thread
ROWS = (28, 14, 7, 4, 2)            # of a sub-block
STAGES = ((12, 2), (6, 2), (4, 2), (2, 2), (1, 1))     # rows ahead and of a stage: three that fit, if any
STAGES_TRIED = 3
CHANNELS = (32, 64, 128, 192)       # threads of a block along the channels, at most and evenly,
BLOCK_COLUMNS = (1, 2, 4, 8)        # and along the columns;
LEAST, MOST = 48, 256               # both together
CLEARLY = 0.9                       # of the cycles of the rules' walk, above which that stays where images are many
# Cycles of a multiprocessor, fitted to 5,900 walks of 96 layers (3x3 to 9x9, 7^2 to 112^2, stride 1; float16 and
# float32, batch 1 to 128), timed on an H200 on 2026-11-27: of these the walk that is chosen takes 1.07 times as long as
# the quickest in the mean
ISSUED = 0.66               # of an instruction of a warp, of a quarter's
READ = 2.9                  # instructions of a read from shared memory,
CONVERTED = 0.95            # of a 16-bit element that becomes a float,
COPY = 3.96                 # of a copy to shared memory,
STORE = 11.1                # of an output pixel,
WEIGHT = 10.9               # of a weight, on its way to its register,
START = 201.0               # and of a thread's beginning
LONE = 0.88                 # of an instruction in a thread's own time
LATENCY = 424.0             # of a step's copies, over the steps that are ahead
WAVE = 0.4                  # of 128 bytes to or from shared memory
CONFLICTS = 1.06            # more of those that a warp of several columns reads, whose banks meet
MEMORY_SHARE = 0.93         # of the bytes, at the speed of a copy
COPIED_SHARE = 0.118        # of those that are copied to shared memory, which neighbouring strips share;
PARTLY = 8.4                # of these many times what lies in the same sectors and is not copied
NORM = 1.8                  # of the four, which overlap
LAUNCH = 3910.0


@dataclass(frozen=True)
class Walk:
    """What all walks of these channels and columns of a thread have in common."""

    spec: KernelSpec
    options: ChannelsOptions
    numbers: ChannelsNumbers    # that no block changes
    p: int                      # output rows
    q: int                      # and columns
    registers: int
    products: int               # of a step,
    reads: int                  # its reads from shared memory
    conversions: int            # and elements that become floats

    def placed(self) -> Iterator[tuple[ChannelsOptions, BlockLine]]:
        """With each block and each number of rows ahead that fits in its shared memory, and what a row is there."""
        for channels, columns in self.blocks():
            found = 0
            for ahead, stage in STAGES:
                options = replace(self.options, block_channels=channels, block_columns=columns, prefetch_rows=ahead,
                                  stage_rows=stage)
                line = line_of(self.spec, options, self.numbers.loads[-1] + 1, self.numbers.rows_of_step)
                if line.shared_bytes <= SHARED_STATIC and found < STAGES_TRIED:
                    found += 1
                    yield options, line

    def blocks(self) -> list[tuple[int, int]]:
        """Threads of a block along the channels and the columns, evenly: LEAST to MOST where there are as many."""
        jobs = -(-self.q // self.options.columns)
        along = {threads_of_channels(self.spec, self.options.vector, most) for most in CHANNELS}
        beside = {-(-jobs // -(-jobs // most)) for most in BLOCK_COLUMNS}
        found = [(channels, columns) for channels in sorted(along) for columns in sorted(beside)]
        fitting = [block for block in found if LEAST <= block[0] * block[1] <= MOST]
        return fitting or [min(found, key=lambda block: abs(block[0] * block[1] - LINES_THREADS))]

    def cycles(self, options: ChannelsOptions, line: BlockLine, several: tuple[int, ...], images: int) -> list[float]:
        """Of so many images, with each of several numbers of rows of a sub-block: what a multiprocessor issues, its
        rounds of blocks, each as long as a thread, shared memory, and memory."""
        spec, hardware, numbers, size = self.spec, self.spec.hardware, self.numbers, self.spec.dtype.itemsize
        threads, copies = options.block_channels * options.block_columns, len(line.copies) * len(numbers.rows_of_step)
        step = self.products + self.reads * READ + self.conversions * CONVERTED + COPY * copies
        once, store = WEIGHT * spec.r * spec.s * numbers.units + START, STORE * options.columns
        held = max(1, min(resident_lines(spec, self.registers, threads), hardware.resident_blocks,
                          hardware.shared_multiprocessor // (line.shared_bytes + hardware.shared_reserved)))
        meets = options.block_channels % LANES != 0 and options.block_columns > 1
        waves = (self.reads * max(1.0, numbers.inputs * size / 4) * (1 + CONFLICTS * meets)
                 + copies * line.copy_bytes / 4)
        pixel, warps = line.pixel * size, -(-threads // LANES)
        partly = (-(-pixel // SECTOR_BYTES) + (0.5 if pixel % SECTOR_BYTES else 0.0)) * SECTOR_BYTES / pixel - 1
        copied = COPIED_SHARE * line.step_elements * size * (1 + PARTLY * partly)
        moved = MEMORY_SHARE * images * size * self.p * self.q * spec.k * (1 + spec.stride[0] * spec.stride[1])
        bands = images * -(-spec.k // line.pixel) * -(-self.q // (options.columns * options.block_columns))
        found = []
        for rows in several:
            walked = min(rows, self.p)
            steps = walked + numbers.ring_rows - 1
            instructions = steps * step + walked * store + once
            blocks = bands * numbers.classes * -(-self.p // (rows * numbers.classes))
            each = -(-blocks // hardware.multiprocessors)
            thread = LATENCY * max(1.0, steps / options.prefetch_rows) + LONE * instructions
            parts = (ISSUED * each * warps * instructions / QUARTERS, -(-each // held) * thread,
                     WAVE * each * warps * steps * waves, (moved + blocks * steps * copied) / hardware.copied_bytes)
            found.append(LAUNCH + math.pow(sum(part ** NORM for part in parts), 1 / NORM))
        return found


@functools.lru_cache(maxsize=256)
def choice(spec: KernelSpec, p: int, q: int, images: int, usual: ChannelsOptions | None = None
           ) -> ChannelsOptions | None:
    """The walk of the fewest cycles for so many images of outputs of p x q, or the ``usual`` one, unless that takes
    clearly more; None where none fits."""
    several = _rows(p)
    found = ((cycles, rows, options) for walk in _walks(spec, p, q) for options, line in walk.placed()
             for cycles, rows in zip(walk.cycles(options, line, several, images), several))
    cycles, rows, options = min(found, key=lambda entry: entry[0], default=(math.inf, 0, usual))
    if options is None or usual is not None and cycles > CLEARLY * _cycles_of(spec, usual, p, q, images):
        return usual
    return replace(options, sub_block_rows=rows, width=Width.WHOLE if q % options.columns == 0 else Width.ANY)


def _cycles_of(spec: KernelSpec, options: ChannelsOptions, p: int, q: int, images: int) -> float:
    numbers = numbers_of(spec, options)
    return _walk(spec, options, numbers, p, q).cycles(options, numbers.line, (options.sub_block_rows,), images)[0]


def candidates(spec: KernelSpec, p: int, q: int) -> Iterator[ChannelsOptions]:
    """Walks worth measuring: of each number of channels, columns and rows that of the fewest cycles for one image, a
    few, and some more."""
    several = _rows(p)
    for walk in _walks(spec, p, q):
        placed = list(walk.placed())
        for images in (*FEW_IMAGES, SOME_IMAGES) if placed else ():
            priced = [walk.cycles(options, line, several, images) for options, line in placed]
            for number, rows in enumerate(several):
                least = min(range(len(placed)), key=lambda i: priced[i][number])
                yield replace(placed[least][0], sub_block_rows=rows)


def _rows(p: int) -> tuple[int, ...]:
    """Of a sub-block: to the first that holds all."""
    return tuple(rows for rows in ROWS if rows < 2 * p)


def _walks(spec: KernelSpec, p: int, q: int) -> Iterator[Walk]:
    for options, numbers in threads_that_fit(spec, UNITS, [columns for columns in COLUMNS if columns <= q]):
        yield _walk(spec, options, numbers, p, q)


def _walk(spec: KernelSpec, options: ChannelsOptions, numbers: ChannelsNumbers, p: int, q: int) -> Walk:
    reads = len(numbers.loads) * len(numbers.rows_of_step)
    return Walk(spec=spec, options=options, numbers=numbers, p=p, q=q, registers=registers_of(spec, options, numbers),
                products=spec.r * spec.s * numbers.units * options.columns, reads=reads,
                conversions=reads * numbers.input_units if numbers.converted else 0)
