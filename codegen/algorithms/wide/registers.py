"""How many registers a thread of ``wide`` needs: what is planned, and what compilers take beyond it."""

from __future__ import annotations

from warpconv.codegen.parts.occupancy import step_registers
from warpconv.codegen.parts.weights import BankWeights
from warpconv.codegen.spec import KernelSpec

from .numbers import WideNumbers, filter_registers
from .options import Loads, TapRows, WideOptions

WEIGHTS_HELD = 90             # weights that stay in registers beside a ring
REGISTER_MARGIN = 16          # beyond the planned registers, for addresses and what the compiler has in flight
UNIFORM_MARGIN = 8            # where the compiler knows what the lanes of a warp share
ADDRESSES = 24                # registers of addresses, sizes and counters
UNIFORM_ADDRESSES = 16, 8     # beside those that lanes share (3x3 with silu: 78 for 93); without those of copies
NARROW_LOAD = 6               # registers of each further load of a row: its address and its guard
SCALAR_LOAD = 3               # registers of a load without a vector: its address and its guard (nvcc 13.0, odd widths)


def planned_registers(spec: KernelSpec, options: WideOptions, numbers: WideNumbers) -> int:
    """Sums, rows ahead, the columns of a step, weights, and what addresses and the loop take."""
    carried = (numbers.carried + 1) * options.columns
    added = len(numbers.stores) * numbers.store.cells if numbers.residual == "with_rows" else 0
    step_cells = numbers.step_rows * numbers.row_cells
    rows = 2 * options.prefetch_rows * (step_cells + added) if spec.channels == 1 else numbers.row_cells
    addresses = UNIFORM_ADDRESSES[options.loads is Loads.REGISTERS] if _lean(spec, options, numbers) else ADDRESSES
    words = len(numbers.window) // 2 if numbers.own.per_cell == 2 else 0      # before they are floats
    window = numbers.step_rows * len(numbers.window) + words
    return (carried + rows + window + filter_registers(spec, options) + addresses
            + step_registers(spec, options.columns))


def register_margin(spec: KernelSpec, options: WideOptions, numbers: WideNumbers) -> int:
    """Registers beyond the planned ones, without which CUDA 13.0 or 13.5 was seen to spill."""
    if options.tap_rows is TapRows.NEEDED and spec.arch.major >= 10:      # 23x23 spills on sm_100 without
        return 3 * REGISTER_MARGIN
    if _lean(spec, options, numbers):
        least = REGISTER_MARGIN if numbers.residual == "with_rows" else UNIFORM_MARGIN
        return least + NARROW_LOAD * max(0, numbers.own_loads - 1) * (options.loads is Loads.REGISTERS)
    several = 2 if options.weights is BankWeights.SHARED or numbers.residual == "with_rows" else 1
    if numbers.residual == "step_ahead" and options.loads is Loads.REGISTERS and spec.channels == 1:
        several = 4      # beside a border's pixels around narrow loads
    margin = REGISTER_MARGIN * several
    if options.vector == 1 and numbers.own_loads > 2:      # odd widths
        twice = 2 if numbers.taps > WEIGHTS_HELD // 2 else 1
        return margin + twice * (SCALAR_LOAD * numbers.own_loads * numbers.step_rows + 2 * len(numbers.window))
    many = options.stage_steps > 1 or options.tap_rows is TapRows.NEEDED
    if options.weights is BankWeights.CONSTANT and many and len(numbers.window) > 12:      # 10x10, sm_90; 28x28, sm_80
        return margin + 8
    stacked = not numbers.packed and options.warp_rows > 1 and numbers.seams is None
    return margin + 8 if stacked and options.weights is BankWeights.REGISTERS and numbers.taps > 20 else margin


def _lean(spec: KernelSpec, options: WideOptions, numbers: WideNumbers) -> bool:
    """Whether lanes keep little beside rows and sums: not where they look for a border's pixels around a row."""
    return numbers.uniform_warp and not (options.loads is Loads.REGISTERS and spec.padding_mode.reads_image)
