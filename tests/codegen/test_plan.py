"""Planning: plan values read and refused with reasons, and every number that the run time takes from a plan."""

import dataclasses

import pytest

from warpconv.codegen import registry
from warpconv.codegen.algorithms.direct import plan as direct
from warpconv.codegen.algorithms.reuse import plan as reuse
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.errors import ArgumentError, UnsupportedSpec
from warpconv.codegen.hardware import SHARED_STATIC
from warpconv.codegen.options import choices, with_settings
from warpconv.codegen.plan import Blocks, Extent, Launch, Program, Role, Workspace
from warpconv.codegen.render import render
from warpconv.codegen.resolution import plan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, index_bits


def shape(**changes):
    return ConvShape(**{**dict(c=1, h=100, w=100, k=1, r=5, s=5), **changes})


def planned(layer=None, algorithm="reuse", epilogue=(), **values):
    return plan_layer(layer or shape(), algorithm=algorithm, epilogue=epilogue, settings=values)


# ---- reading plan values

@pytest.mark.parametrize("name, value", [("exchange", "packed"), ("exchange", reuse.Exchange.PACKED),
                                         ("sub_block_rows", "16"), ("sub_block_rows", 16)])
def test_values_as_text_numbers_and_enums(name, value):
    assert str(planned(**{name: value}).settings()[name]) in ("packed", "16")


@pytest.mark.parametrize("name, value, hint", [
    ("exchange", "pack", "packed|select"), ("rows", 3, "reuse|reload"), ("sub_block_rows", 0, ">= 1"),
    ("sub_block_rows", -7, ">= 1"), ("sub_block_rows", 2.0, ">= 1"), ("sub_block_rows", "many", ">= 1"),
    ("k_tile", None, ">= 1"), ("weights", None, "shared"), ("blocksize", 5, "sub_block_rows"),
    ("exchange", direct.THREADS, "packed")])
def test_values_that_are_not_offered(name, value, hint):
    with pytest.raises(ArgumentError) as caught:
        planned(**{name: value})
    assert caught.value.argument == f"set {name}" and caught.value.value == value and hint in caught.value.hint


@pytest.mark.parametrize("algorithm, older, newer, value", [
    ("wide", "rows_ahead", "prefetch_rows", 4), ("wide", "turn_steps", "stage_steps", 2),
    ("wide", "gaps", "separators", "select"), ("channels", "turn_rows", "stage_rows", 2),
    ("toeplitz", "bands_ahead", "prefetch_bands", 3), ("reuse", "rows_ahead", "prefetch_rows", 3)])
def test_older_names_of_plan_values_are_read(algorithm, older, newer, value):
    """Packs, databases of tuning and layers files have them."""
    options = registry.algorithm(algorithm).options()
    assert with_settings(options, {older: value}) == with_settings(options, {newer: value})
    with pytest.raises(ArgumentError) as caught:
        with_settings(options, {"rows": "none", older + "_": value})
    assert older not in caught.value.hint.split()


def test_an_algorithms_values_are_not_another_ones():
    with pytest.raises(ArgumentError) as caught:
        planned(algorithm="direct", exchange="packed")
    assert "block_size_x" in caught.value.hint


def test_unknown_algorithms_and_architectures():
    with pytest.raises(ArgumentError) as caught:
        planned(algorithm="winograd")
    assert "reuse" in caught.value.hint and "auto" in caught.value.hint
    with pytest.raises(ArgumentError):
        plan_layer(shape(), arch="hopper")


def test_choices_names_every_value():
    assert set(choices(reuse.ReuseOptions)) == {f.name for f in dataclasses.fields(reuse.ReuseOptions)}
    assert choices(reuse.ReuseOptions)["rows"] == "reuse|reload"


# ---- refusals

@pytest.mark.parametrize("layer, values, reason", [
    (shape(stride=2), {}, "stride (2, 2)"), (shape(dilation=(1, 2)), {}, "dilation (1, 2)"),
    (shape(s=32, r=1), {}, "32 columns wide"), (shape(r=reuse.TALLEST_FILTER + 1), {}, "rows tall"),
    (shape(r=31, s=31), {"ring": "turning"}, "29791 FMAs"), (shape(k=6), {"k_tile": 4}, "does not divide K/groups = 6"),
    (shape(k=32), {"k_tile": 32, "ring": "turning"}, "4000 FMAs"), (shape(), {"warp_rows": 33}, "1024 threads"),
    (shape(), {"sub_block_rows": 4097}, "at most 4096"), (shape(c=600), {"weights": "shared"}, "weights=cached"),
    (shape(c=300, k=4), {"weights": "constant", "k_tile": 1}, "constant memory"),
    (shape(dtype="float16"), {}, "float16")])
def test_reuse_declines_with_the_reason(layer, values, reason):
    with pytest.raises(UnsupportedSpec) as caught:
        planned(layer, **values)
    assert reason in caught.value.reason and caught.value.reason in str(caught.value)
    assert caught.value.spec.algorithm == "reuse" and isinstance(caught.value, ValueError)


@pytest.mark.parametrize("values, reason", [({"k_tile": 5}, "does not divide"), ({"block_size_x": 2048}, "threads"),
                                            ({"block_size_x": 1, "block_size_y": 1}, "a block of 1 threads"),
                                            ({"k_tile": 64}, "registers")])
def test_direct_declines_with_the_reason(values, reason):
    with pytest.raises(UnsupportedSpec, match=reason):
        planned(shape(k=64), "direct", **values)


# ---- what defaults choose

@pytest.mark.parametrize("k, groups", [(1, 1), (2, 1), (7, 1), (12, 1), (12, 3), (64, 1), (96, 96), (13, 13)])
@pytest.mark.parametrize("algorithm", ["reuse", "direct"])
def test_the_default_tile_divides_the_filters_of_a_group(algorithm, k, groups):
    layer = shape(c=groups * 2, k=k, groups=groups, r=3, s=3)
    made = planned(layer, algorithm)
    assert (k // groups) % made.options.k_tile == 0
    assert made.numbers.k_tiles * made.options.k_tile == k // groups
    assert k // groups == 1 or 1 < made.options.k_tile <= 8


def test_weights_that_fit_no_shared_memory_are_read_through_the_cache_and_it_is_said():
    fits, too_many = planned(shape(c=400, k=4)), planned(shape(c=600, k=4))
    assert fits.options.weights is reuse.TileWeights.SHARED and not fits.notes
    assert 4 * fits.numbers.shared_floats <= SHARED_STATIC
    assert too_many.options.weights is reuse.TileWeights.CACHED
    assert "through the cache" in too_many.notes[0] and "67200" in too_many.notes[0]
    assert too_many.notes[0] in str(too_many) and too_many.notes[0] in render(too_many).text


def test_every_candidate_of_the_space_is_planned_or_refused_with_a_reason():
    for row, layer in ((reuse.ALGORITHM, shape(k=4)), (direct.ALGORITHM, shape(k=4))):
        spec = planned(layer, row.name).spec
        made = refused = 0
        for options in row.space(spec):
            try:
                chosen = row.plan(spec, options).options
                # 0 and "derived" leave a value to the planner
                assert all(getattr(chosen, f.name) == value or value in (0, reuse.Ring.DERIVED)
                           for f in dataclasses.fields(options) for value in [getattr(options, f.name)])
                made += 1
            except UnsupportedSpec as error:
                assert error.reason
                refused += 1
        assert made > 20 and made > refused


# ---- the program

def test_arguments_are_described_once():
    made = planned(shape(k=2), epilogue=(Epilogue.BIAS,))
    step, = made.program.steps
    assert step.arguments == ("x", "w", "bias", "y", "N", "H", "W", "P", "Q")
    assert [made.program.argument(n).role for n in step.arguments[:4]] == [Role.INPUT, Role.WEIGHT, Role.BIAS,
                                                                           Role.OUTPUT]
    declared = [made.program.argument(n).declaration for n in step.arguments]
    assert declared[0] == "const float* __restrict__ x" and declared[3] == "float* __restrict__ y"
    assert f"reuse_5x5({', '.join(declared)})" in " ".join(render(made).text.split())
    assert made.program.entries == ("reuse_5x5",) and made.spec.name == "reuse_5x5"


def test_constant_weights_are_a_preparation():
    made = planned(shape(c=2, k=3), weights="constant")
    assert made.program.preparation.constant == "filter_bank"
    assert made.program.preparation.constant_bytes == 4 * 3 * 2 * 25
    assert planned().program.preparation is None


@pytest.mark.parametrize("algorithm, values", [("reuse", {"edges": "direct"}), ("reuse", {"edges": "predicated"}),
                                               ("direct", {})])
@pytest.mark.parametrize("n, h, w", [(1, 5, 5), (70000, 6, 6), (1, 4_000_000, 9), (3, 9, 4_000_000), (65536, 5, 5)])
def test_grids_stay_within_the_limits_and_reach_every_output(algorithm, values, n, h, w):
    layer = shape(n=n, h=h, w=w, padding=1)
    made = planned(layer, algorithm, **values)
    x, y, z = made.program.steps[0].grid_of(layer)
    assert 1 <= x <= 2**31 - 1 and 1 <= y <= 65535 and 1 <= z <= 65535
    if algorithm == "direct":
        width, height = made.options.block_size_x, made.options.block_size_y
        assert x * width >= layer.q > (x - 1) * width       # columns are not looped over
        assert y == min(65535, -(-layer.p // height))
    else:
        jobs = (layer.w - 4) // 32 + 1 if values["edges"] == "direct" else -(-layer.q // 32)
        assert x * made.options.warp_columns >= jobs
    assert z == min(65535, n)


def test_blocks():
    layer = shape(n=7)
    assert Blocks(of=Dimension.N).count(layer) == 7
    assert Blocks(of=Dimension.N, add=1, per=4, times=3).count(layer) == 6
    assert Blocks(of=Dimension.N, limit=5).count(layer) == 5
    assert Blocks(of=Dimension.N, per=100).count(layer) == 1
    tiles = Blocks(of=Dimension.N, by=(Dimension.P, Dimension.Q), each=2, add=3, per=4, pieces=(4, 8))
    assert tiles.count(shape(n=7, h=13, w=9, r=1, s=1)) == (2 * 7 * 4 * 2 + 3) // 4
    assert str(tiles) == "(2 * N * ceil(P / 4) * ceil(Q / 8) + 3) // 4"
    assert Blocks(times=9).count(None) == 9 and Blocks().count(None) == 1


def test_workspace_bytes():
    per = (Extent(of=Dimension.N), Extent(of=Dimension.P))
    launch = Launch(entry="k", grid=(Blocks(), Blocks(), Blocks()), block=(32, 1, 1), arguments=())
    spaces = (Workspace(name="a", bytes_each=10, first_step=0, last_step=1),
              Workspace(name="b", bytes_each=2, per=per, first_step=1, last_step=2),
              Workspace(name="c", bytes_each=100, first_step=2, last_step=2))
    program = Program(arguments=(), steps=(launch,) * 3, workspaces=spaces)
    layer = shape(n=3)
    assert spaces[1].bytes_of(layer) == 2 * 3 * 96
    assert program.workspace_bytes(layer) == 2 * 3 * 96 + 100
    assert planned().program.workspace_bytes(layer) == 0


@pytest.mark.parametrize("exchange", ["select", "packed", "dynamic", "none"])
def test_costs_of_a_plan(exchange):
    made = planned(exchange=exchange, rows="reuse", sub_block_rows=56, ring="turning", prefetch_rows=1)
    loads = 5 if exchange == "none" else 2
    assert made.cost.warp_loads == 60 * loads and made.cost.direct_loads == 1400
    assert made.cost.shuffles == (0 if exchange == "none" else 180)
    assert made.cost.fma == 56 * 25 and str(made.cost.warp_loads) in str(made.cost)
    assert made.cost.no_spills == (exchange != "dynamic")


def test_plan_of_a_spec_needs_no_shape():
    made = planned()
    again = plan(made.spec, made.settings())
    assert again == made and render(again).text == render(made).text


def test_64_bit_indices_only_where_an_offset_needs_them():
    small, large = planned(shape(h=46200, w=46200)), planned(shape(h=46400, w=46400))
    assert (small.spec.index_bits, large.spec.index_bits) == (32, 64)
    assert "using index_t = int;" in render(small).text and "using index_t = long long;" in render(large).text
    by_output = planned(shape(n=40, h=1000, w=1000, k=64, padding=2))
    assert by_output.spec.index_bits == 64
    # of rows so long, the first output of the taps below the last image lies past 2^31
    rows = ConvShape(n=1, c=8, h=334, w=400_000, k=64, r=3, s=3, padding=1, stride=2, layout="NHWC")
    assert [index_bits(dataclasses.replace(rows, w=w)) for w in (390_000, 400_000)] == [32, 64]


def test_reload_needs_no_ring_whatever_the_filter():
    """The derived ring of a large filter is the shifted one, which only row reuse has."""
    for size in (3, 11, 13):
        plan_ = planned(shape(h=80, w=80, r=size, s=size), rows="reload")
        assert plan_.options.ring.value == "turning"
