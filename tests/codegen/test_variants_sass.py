"""What a CUDA compiler makes of the variants: no two are the same code, and what the plan promises is what is there.

Needs a CUDA compiler and a disassembler, and no GPU.
"""

from __future__ import annotations

import functools
import itertools
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests import checks, settings
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build import disassembly as sass
from warpconv.runtime.build.compilers import EntryReport
from warpconv.runtime.build.pipeline import build

pytestmark = pytest.mark.nvcc
needs_disassembler = pytest.mark.skipif(sass.available() is None, reason=f"no disassembler; {sass.WAYS}")

EXCHANGES = ("select", "packed", "dynamic", "dynamic_local", "none")
ROWS = ("reuse", "reload")
PLANE = ConvShape(c=1, h=512, w=512, k=1, r=5, s=5, padding="same")
# all that could hide a difference held fast; constant weights keep the filter out of the counts of loads
FIXED = {"decomposition": "paper", "weights": "constant", "edges": "predicated", "sub_block_rows": 56,
         "warp_columns": 1, "warp_rows": 4, "ring": "turning", "prefetch_rows": 1, "k_tile": 1, "min_blocks": 1}


def compiled(plan: KernelPlan) -> tuple[EntryReport, str]:
    """ptxas' report on a plan's kernel, and its SASS where there is a disassembler."""
    built = build(plan).compiled
    text = sass.disassemble(built.cubin) if sass.available() else ""
    return built.entry(plan.spec.name), text


@functools.cache
def variants() -> dict[tuple[str, str], tuple[EntryReport, str]]:
    names = list(itertools.product(EXCHANGES, ROWS))
    plans = [checks.planned(PLANE, "reuse", {**FIXED, "exchange": e, "rows": r}) for e, r in names]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(compiled, plans)))


def counts(exchange: str, rows: str) -> dict[str, int]:
    return sass.count_instructions(variants()[exchange, rows][1], "reuse_5x5")


def body(text: str) -> str:
    """The instructions, without addresses and encodings."""
    return "\n".join(re.findall(r"/\*[0-9a-f]{4,}\*/\s+([^;]+;)", text))


@pytest.mark.long
@needs_disassembler
def test_no_two_variants_are_the_same_code():
    bodies = {name: body(text) for name, (_, text) in variants().items()}
    assert all(len(b.splitlines()) > 100 for b in bodies.values())
    same = [pair for pair in itertools.combinations(bodies, 2) if bodies[pair[0]] == bodies[pair[1]]]
    assert not same


@pytest.mark.long
@needs_disassembler
@pytest.mark.parametrize("rows", ROWS)
def test_exchanges_replace_loads_by_shuffles(rows):
    """2 loads and 3 shuffles for a row of 5 columns, instead of 5 loads. The compiler lays parts of the loop out more
    than once and differently, so it is loads per product that are compared."""
    plain = counts("none", rows)
    assert plain["SHFL"] == 0 and plain["LDG"] >= 25
    for exchange in ("select", "packed", "dynamic", "dynamic_local"):
        found = counts(exchange, rows)
        assert found["SHFL"] >= 15 and found["SHFL"] > found["LDG"]
        assert found["LDG"] / found["FFMA"] < 0.5 * plain["LDG"] / plain["FFMA"]


@pytest.mark.long
@needs_disassembler
@pytest.mark.parametrize("rows", ROWS)
def test_packing_shifts_and_selecting_does_not(rows):
    assert counts("packed", rows)["SHF"] >= counts("select", rows)["SHF"] + 15


@pytest.mark.long
@needs_disassembler
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_products_are_fused_multiply_adds(exchange, rows):
    """At least 25 for every output row whose text is laid out: R rows of a ring's turn, one row without row reuse."""
    found = counts(exchange, rows)
    assert found["FFMA"] >= (125 if rows == "reuse" else 25) and found["FFMA"] % 5 == 0
    assert found["FMUL"] == 0


@needs_disassembler
@pytest.mark.parametrize("rows", ROWS)
def test_local_memory_is_used_where_it_is_forced_and_not_where_registers_are_promised(rows):
    """Where a compiler keeps the array of exchange=dynamic is its own affair; it is reported, not promised."""
    forced = sass.count_instructions(variants()["dynamic_local", rows][1])
    assert forced["LDL"] + forced["LD"] > 0 and forced["STL"] > 0 and forced["CALL"] > 0
    assert variants()["dynamic_local", rows][0].stack_bytes > 0
    for exchange in ("select", "packed", "none"):
        report, text = variants()[exchange, rows]
        found = sass.count_instructions(text)
        assert (found["LDL"], found["STL"], report.stack_bytes, report.spills) == (0, 0, 0, False), exchange


@needs_disassembler
@pytest.mark.parametrize("exchange", ["select", "packed", "none"])
def test_row_reuse_loads_less_for_a_product(exchange):
    """A turn of the ring loads R input rows for R output rows; without it, R input rows make one output row."""
    reuse, reload = counts(exchange, "reuse"), counts(exchange, "reload")
    assert reuse["LDG"] / reuse["FFMA"] < 0.5 * reload["LDG"] / reload["FFMA"]


@pytest.mark.long
@needs_disassembler
def test_weights_are_where_the_plan_puts_them():
    found = {}
    for weights in ("shared", "constant", "cached"):
        _, text = compiled(checks.planned(PLANE, "reuse", {**FIXED, "weights": weights}))
        found[weights] = sass.count_instructions(text, "reuse_5x5")
    assert found["shared"]["LDS"] > 0 and found["shared"]["BAR"] > 0
    assert found["constant"]["LDS"] == found["cached"]["LDS"] == found["constant"]["BAR"] == 0
    assert found["cached"]["LDG"] >= found["constant"]["LDG"] + 25


def promising_plans() -> list[KernelPlan]:
    """Planned defaults with the exchanges that promise registers: filters 1..13 square, and multi-channel layers."""
    layers = [ConvShape(c=1, h=1024, w=1024, k=1, r=size, s=size, padding="same") for size in range(1, 14)]
    layers += [ConvShape(n=128, c=c, h=64, w=64, k=k, r=size, s=size, groups=groups, padding="same")
               for c, k, groups, size in ((3, 64, 1, 3), (64, 64, 1, 3), (3, 96, 1, 7), (32, 32, 32, 5),
                                        (96, 256, 1, 5))]
    plans = []
    for arch in ("sm_80", "sm_90", "sm_100"):
        for number, layer in enumerate(layers):
            exchanges = ("select", "packed", "none") if arch == "sm_90" else (("select", "packed", "none")[number % 3],)
            for exchange in exchanges:
                try:
                    plans.append(checks.planned(layer, "reuse", {"exchange": exchange}, arch=arch))
                except UnsupportedSpec:
                    continue
        plans += [checks.planned(layer, "direct", arch=arch) for layer in layers[::4]]
    return plans


@pytest.mark.long
def test_planned_defaults_stay_in_registers():
    plans = promising_plans()
    assert len(plans) > 80
    plans = settings.share(plans, of=4)
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda plan: build(plan).compiled.entry(plan.spec.name), plans))
    wrong = [f"{plan.spec.arch} {plan.spec}: {report.registers} registers, {report.stack_bytes} bytes of stack, "
             f"{report.spill_stores} spilled; {plan.settings()}"
             for plan, report in zip(plans, reports)
             if plan.cost.no_spills and (report.spills or report.stack_bytes)]
    assert not wrong, "\n".join(wrong)
