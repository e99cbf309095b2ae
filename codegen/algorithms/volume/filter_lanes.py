"""``volume_filter``, form lanes: sizes, what does not go together, and defaults."""

from __future__ import annotations

from warpconv.codegen.classes import replace
from warpconv.codegen.hardware import GRID_LIMIT, PORTABLE_SHARED
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .filter_march import MOST_GRADIENTS, MOST_SUMS, shared_out, shares
from .filter_options import FilterGradientOptions
from .lanes import LanesNumbers, as_held, lane_registers, lanes_numbers, lanes_refusal, team_of
from .options import Form
from .plan import MOST_PRODUCTS

MOST_REGISTERS = 168
TILES = ((1, 8), (2, 4), (1, 4), (1, 2), (1, 1))    # rows and columns of a team, the best first,
TILES_OF_A_PLANE = ((4, 4), *TILES)                 # and with one plane of outputs


def filter_lanes_numbers(spec: KernelSpec, options: FilterGradientOptions) -> tuple[LanesNumbers, int]:
    """Sizes, and registers of a thread."""
    made = lanes_numbers(spec, options, (options.tap_planes, options.tap_rows, options.tap_columns))
    registers = lane_registers(options, made, 1, _sums(options) // options.lane_vector)
    shared = 4 * _sums(options) * made.lanes
    return as_held(spec, options, made, registers, shared), registers


def _sums(options: FilterGradientOptions) -> int:
    """Of a thread."""
    return options.tap_planes * options.tap_rows * options.tap_columns * options.lane_vector


def filter_lanes_refusal(spec: KernelSpec, options: FilterGradientOptions) -> str | None:
    """Why these plan values do not go together, or not with this layer."""
    refusal = lanes_refusal(spec, options)
    if refusal is not None:
        return refusal
    if options.tap_columns != spec.s:
        return f"tap_columns = {options.tap_columns}: form = lanes sums all {spec.s} columns of a filter's row"
    made, registers = filter_lanes_numbers(spec, options)
    outputs = options.rows * options.columns * options.lane_vector
    shared = 4 * _sums(options) * made.lanes
    for found, most, what in ((_sums(options), MOST_SUMS, "sums of a thread"),
                              (made.slots * outputs, MOST_GRADIENTS, "outputs in registers"),
                              (registers, MOST_REGISTERS, "registers of a thread"),
                              (_sums(options) * outputs // options.lane_vector, MOST_PRODUCTS, "products in the text"),
                              (shared, PORTABLE_SHARED, "bytes of shared memory"),
                              (made.tap_tiles[0] * made.tap_tiles[1], GRID_LIMIT[2], "tiles of taps")):
        if found > most:
            return f"{found} {what} (at most {most})"
    return None


def lanes_options(spec: KernelSpec, shape: ConvShape | None) -> FilterGradientOptions | None:
    """The largest tile of outputs whose sums stay in registers, or None where the layer has none."""
    lanes, teams, vector = team_of(spec)
    rows, planes = shares(spec, vector)
    for tile in TILES_OF_A_PLANE if planes == 1 else TILES:
        found = FilterGradientOptions(
            form=Form.LANES, tap_planes=planes, tap_rows=rows, tap_columns=spec.s, block_size_x=lanes,
            block_size_y=teams, rows=tile[0], columns=tile[1], lane_vector=vector)
        if filter_lanes_refusal(spec, found) is None:
            made, _ = filter_lanes_numbers(spec, found)
            # tiles of taps take turns: beside each other, of fewer chunks each, they take a third longer
            return shared_out(found, shape, tile, made.slots, made.filled // made.teams, made.teams)
    return None


def leaner_lanes(spec: KernelSpec, options: FilterGradientOptions) -> FilterGradientOptions | None:
    """The next smaller tile of outputs, or None."""
    smaller = (replace(options, rows=rows, columns=columns) for rows, columns in TILES
               if rows * columns < options.rows * options.columns)
    return next((found for found in smaller if filter_lanes_refusal(spec, found) is None), None)
