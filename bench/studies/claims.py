"""What the documents claim and what the studies here measured: every headline claim beside our figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from bench.devices import NoDevice
from bench.report import environment
from bench.report.files import OK, Report, Table
from bench.study import Context, Rows, Study

from . import intensity, memory_tables, planes_tables, published, twelve_tables
from .contest import mean, measured, ratios
from .paper_layers import quickest_ms

RESULTS = environment.ROOT / "docs" / "results"
REUSE = "Lu, Zhang, Wang: column and row reuse"
PAPER = "the same paper, its evaluation"
SLIDES = "the slides"
IM2WIN = "im2win"
SAME = 0.02     # a saving or share is that of a document where it is within this of it

ABOUT = """
No GPU is needed: figures are worked out from docs/results/<study>/<study>.json, each with its device, versions, date
and command. "Holds" compares them with what the document says, on other machines and against other versions of the
libraries; a dash says that a figure cannot be compared. The remark says what stands behind it, above all where a claim
does not hold. What is wrong in the documents' pseudo-code and formulas stands in the page of each algorithm.
"""


@dataclass(frozen=True)
class Finding:
    """Our figure in words, and whether the claim holds with it (None: it cannot be compared)."""

    here: str
    holds: bool | None


@dataclass(frozen=True)
class Claim:
    """One claim: who says it, what, from which study's rows it is judged, and what stands behind our figure."""

    key: str
    source: str
    says: str
    study: str
    judge: Callable[[Rows], Finding]
    remark: str


def run(context: Context) -> None:
    context.report.rows.clear()         # nothing here is measured: all of it is worked out anew
    context.expect(len(CLAIMS))
    found = {study: Report.open(study, RESULTS / study).rows for study in {claim.study for claim in CLAIMS}}
    for claim in CLAIMS:
        context.row(claim.key, lambda claim=claim: _judged(claim, found[claim.study]), source=claim.source,
                    says=claim.says, study=claim.study, remark=claim.remark)


def _judged(claim: Claim, rows: Rows) -> dict[str, Any]:
    if not rows:
        raise NoDevice(f"docs/results/{claim.study}/{claim.study}.json is not there")
    found = claim.judge(rows)
    return {"here": found.here, "holds": found.holds}


def _if_all(holds: bool, found: int, wanted: int) -> bool | None:
    """A verdict is given over all that the claim speaks of, or not at all."""
    return holds if found == wanted else None


# ---- counts

def _sub_block(rows: Rows, taps: int, form: str) -> dict[str, Any]:
    key = f"sub-block/{taps}/{form}"
    if rows.get(key, {}).get("status") != OK:
        raise NoDevice(f"{key} was not counted")
    return rows[key]


def _loads(taps: int, before: str, after: str, outputs: int, want: tuple[float, float]) -> Callable[[Rows], Finding]:
    """Loads of ``outputs`` rows of a sub-block in two forms, beside those that the document names."""
    def judge(rows: Rows) -> Finding:
        each = [_sub_block(rows, taps, form)["load_requests"] / outputs for form in (before, after)]
        return Finding(f"{each[0]:g} -> {each[1]:g}", tuple(each) == want)
    return judge


def _row_loads(rows: Rows) -> Finding:
    """Rows that a column of a 56-row sub-block loads, without and with row reuse."""
    each = [_sub_block(rows, 3, form)["load_requests"] / 3 for form in ("direct", "row only")]
    return Finding(f"{each[0]:g} -> {each[1]:g} row loads for 56 output rows (3 * 56 -> 56 + 2)",
                   each == [3 * 56, 56 + 2])


def _dynamic(rows: Rows) -> Finding:
    """The slowdown of a register array indexed at run time, and its bytes of local memory, at the largest plane."""
    pairs = [(rows.get(f"{taps}x{taps}/8192/base", {}), rows.get(f"{taps}x{taps}/8192/exchange=dynamic", {}))
             for taps in (3, 5, 7)]
    pairs = [(base, dynamic) for base, dynamic in pairs if base.get("status") == dynamic.get("status") == OK]
    if not pairs:
        raise NoDevice("both exchanges were not measured")
    local = [dynamic["local_bytes"] for _, dynamic in pairs]
    slower = [dynamic["ms"] / base["ms"] for base, dynamic in pairs]
    return Finding(f"{min(local)} to {max(local)} bytes of local memory, {min(slower):.2f} to {max(slower):.2f} times "
                   "the time of a select", _if_all(min(local) > 0 and min(slower) > 1, len(pairs), 3))


# ---- planes

def _plane_speedup(taps: int, over: Any, sizes: Iterable[int], least: float, name: str) -> Callable[[Rows], Finding]:
    def judge(rows: Rows) -> Finding:
        found = planes_tables.Planes(rows)
        values = [found.speedup(taps, size, name, over) for size in sizes]
        if None in values:
            raise NoDevice("a size was not measured")
        return Finding(f"{mean(values):.2f}x ({min(values):.2f} to {max(values):.2f})", mean(values) >= least)
    return judge


# ---- the eleven layers with few channels

def _paper(channels: int, base: str, least: float, name: str | None) -> Callable[[Rows], Finding]:
    """Mean speedup of ``name`` (None: our quickest algorithm) over the base."""
    def judge(rows: Rows) -> Finding:
        of = twelve_tables.BASELINES[base][1]
        layers = [row for row in measured(rows) if row["channels"] == channels]
        pairs = [(of(row), row.get(f"{name}_ms") if name else quickest_ms(row)) for row in layers]
        values = [theirs / ours for theirs, ours in pairs if theirs and ours]
        if not values:
            raise NoDevice("no layer has both times")
        return Finding(f"{mean(values):.2f}x over {len(values)} layers ({min(values):.2f} to {max(values):.1f})",
                       _if_all(mean(values) >= least, len(values), PAPER_LAYERS))
    return judge


def _many_channels(rows: Rows) -> Finding:
    """Where reuse is quicker than the gathered matrix product on the twelve layers."""
    pairs = [(row["name"], row["reuse_ms"] / row["implicit_gemm_ms"]) for row in measured(rows)
             if row.get("reuse_ms") and row.get("implicit_gemm_ms")]
    if not pairs:
        raise NoDevice("no layer was timed with both")
    quicker = [name for name, ratio in pairs if ratio < 1]
    return Finding(f"reuse takes {min(r for _, r in pairs):.1f} to {max(r for _, r in pairs):.0f} times as long as "
                   f"implicit_gemm on {len(pairs)} layers", not quicker)


# ---- the slides

def _table(rows: Rows) -> Finding:
    cells = [row for row in rows.values() if row.get("kind") == "table" and row["status"] == OK]
    if not cells:
        raise NoDevice("the table was not planned")
    equal = all(intensity.half_up(row["intensity"]) == printed for row in cells
                if (printed := intensity.PRINTED[row["filter"]][0][intensity.TILES.index(row["tile"])]) != "-")
    return Finding(", ".join(f"{row['filter']}x{row['filter']} at {row['tile']}: {row['intensity']:.4g}"
                             for row in cells), _if_all(equal, len(cells), 2 * len(intensity.TILES) - 1))


def _gain(before: str, after: str) -> Callable[[Rows], Finding]:
    """How much quicker one slide variant is than the one before it, at each filter."""
    def judge(rows: Rows) -> Finding:
        found = {taps: [rows.get(f"{taps}x{taps}/{name}", {}).get("ms") for name in (before, after)]
                 for taps in (3, 5, 9)}
        gains = {taps: a / b for taps, (a, b) in found.items() if a and b}
        if not gains:
            raise NoDevice("the variants were not timed")
        return Finding(", ".join(f"{t}x{t}: {gain:.2f}x" for t, gain in gains.items()),
                       _if_all(min(gains.values()) >= 1, len(gains), 3))
    return judge


def _halo_in_caches(rows: Rows) -> Finding:
    """Sectors that missed the L2, which are those of the plane itself where no halo came from memory."""
    found = {taps: rows.get(f"ncu/{taps}x{taps}/halo_cached", {}) for taps in (3, 5, 9)}
    found = {taps: row for taps, row in found.items() if row.get("status") == OK}
    if not found:
        raise NoDevice("there are no counters")
    plane = intensity.SIZE ** 2 * 4 / 32
    missed = {taps: row["l2_read_sectors"] * (1 - row["l2_hit_pct"] / 100) for taps, row in found.items()}
    return Finding("; ".join(f"{t}x{t}: {row['l1_hit_pct']:.0f} % of the sectors hit the L1, {missed[t] / 1e6:.2f} "
                             f"million missed the L2 (the plane has {plane / 1e6:.2f})" for t, row in found.items()),
                   _if_all(max(missed.values()) <= plane, len(missed), 3))


# ---- im2win

def _over(base: str, least: float, product: bool) -> Callable[[Rows], Finding]:
    """Mean speedup of im2win on the twelve layers, with the transform or (as the document times it) without."""
    def judge(rows: Rows) -> Finding:
        of = twelve_tables.BASELINES[base][1]
        layers = [{**row, "product_ms": twelve_tables.without_first_step(row, "im2win")}
                  for row in twelve_tables.with_memory(measured(rows))]
        values = [v for _, v in ratios(twelve_tables.twelve(layers), "product" if product else "im2win", of)]
        if not values:
            raise NoDevice("no layer has both times")
        return Finding(f"{mean(values):.2f}x ({min(values):.2f} to {max(values):.2f}), {sum(v > 1 for v in values)} of "
                       f"{len(values)} layers quicker", _if_all(mean(values) >= least, len(values), TWELVE))
    return judge


def _saving(base: str, claim: float) -> Callable[[Rows], Finding]:
    def judge(rows: Rows) -> Finding:
        words, of = memory_tables.COMPARISONS[base]
        pairs = memory_tables.pairs_of([row for row in measured(rows) if row.get("im2win_held") is not None], of)
        both = memory_tables.savings(pairs)
        if both is None:
            raise NoDevice("no layer has both")
        return Finding(f"{100 * both[0]:.1f} % (1 - 1/mean), {100 * both[1]:.1f} % (mean)",
                       _if_all(both[0] >= claim - SAME, len(pairs), TWELVE))
    return judge


def _ablation_order(rows: Rows) -> Finding:
    """What im2win keeps of its speed without each technique, mean over the layers."""
    kept, counts = [], []
    for variant in twelve_tables.ABLATIONS:
        pairs = [(row.get("im2win_ms"), row.get(f"{variant.name}_ms")) for row in twelve_tables.twelve(measured(rows))]
        parts = [full / without for full, without in pairs if full and without]
        kept.append(mean(parts))
        counts.append(len(parts))
    if None in kept:
        raise NoDevice("an ablation was not timed")
    prefetch, vector, micro = kept
    return Finding(f"kept without the micro-kernel {micro:.2f}, vector loads {vector:.2f}, prefetch {prefetch:.2f}",
                   _if_all(micro < vector < prefetch, min(counts), TWELVE))


def _basic(rows: Rows) -> Finding:
    values = [row["direct_ms"] / row["im2win_basic_ms"] for row in measured(rows)
              if row.get("direct_ms") and row.get("im2win_basic_ms")]
    if not values:
        raise NoDevice("no layer has both times")
    return Finding(f"{mean(values):.2f}x direct's speed ({min(values):.2f} to {max(values):.2f})",
                   _if_all(all(value > 1 for value in values), len(values), TWELVE + 1))


CHOICE = planes_tables.CHOICE
ALL_SIZES = planes_tables.PAPER_SIZES
LIBRARIES = ("NPP", "CuPy")      # cuCIM's only routine for it makes a pass for each tap
PAPER_LAYERS, TWELVE = 11, 12
CLAIMS = (
    Claim("reuse/row", REUSE, "5x5: five loads per filter row become two (column reuse)", "transactions",
          _loads(5, "direct", "column only", 5 * 56, (5, 2)), "Executed, for each filter row of a 56 x 32 sub-block."),
    Claim("reuse/output", REUSE, "5x5: 25 loads per output become 10", "transactions",
          _loads(5, "direct", "column only", 56, (25, 10)), "Executed."),
    Claim("reuse/rows", REUSE, "row reuse: each input row is loaded once (9 -> 5 row loads for 3 output rows of a 3x3 "
          "filter)", "transactions", _row_loads, "The example has 3 output rows; counted is a sub-block of 56."),
    Claim("reuse/dynamic", REUSE, "a register array indexed at run time goes to local memory and degrades performance",
          "variants", _dynamic,
          "In these kernels, whose loop holds several rows. A small example stays in registers on compilers of today."),
    Claim("planes/3x3", PAPER, "3x3 planes: 5.4x over GEMM-im2col on average", "planes",
          _plane_speedup(3, planes_tables.BASES, ALL_SIZES, 5.4, "reuse"),
          "The paper's kernel as it is generated here. im2col is the quicker of PyTorch's and ours."),
    Claim("planes/3x3 largest", PAPER, "3x3: 9.7x at the largest plane (4096^2)", "planes",
          _plane_speedup(3, planes_tables.BASES, (4096,), 9.7, "reuse"), "The same."),
    Claim("planes/5x5", PAPER, "5x5 planes: 7.7x over GEMM-im2col on average", "planes",
          _plane_speedup(5, planes_tables.BASES, ALL_SIZES, 7.7, "reuse"), "The same."),
    Claim("planes/npp", PAPER, "3x3: more than 30 % over NPP", "planes",
          _plane_speedup(3, ("NPP",), ALL_SIZES, 1.3, "reuse"),
          "One output column a lane leaves issue slots idle (62 % at 4096^2): its warps wait for loads."),
    Claim("planes/npp, ours", PAPER, "the same, of the algorithm that select() takes", "planes",
          _plane_speedup(3, ("NPP",), ALL_SIZES, 1.3, CHOICE), "Several columns a lane, wide loads, loads ahead."),
    Claim("planes/libraries", PAPER, "more than 2x over image libraries (5x5)", "planes",
          _plane_speedup(5, LIBRARIES, ALL_SIZES, 2.0, "reuse"),
          "Against the quicker of NPP and CuPy at each size."),
    Claim("planes/libraries, ours", PAPER, "the same, of the algorithm that select() takes", "planes",
          _plane_speedup(5, LIBRARIES, ALL_SIZES, 2.0, CHOICE), "The same."),
    *(Claim(f"channels/{c}/{base}{', ours' if name is None else ''}", PAPER,
            f"{c} channel{'s' if c > 1 else ''}, batch 128: {published.PAPER_CLAIMS[c][base]}x over {words}"
            + (", of our quickest algorithm" if name is None else ""), "paper_layers",
            _paper(c, base, published.PAPER_CLAIMS[c][base], name),
            "The paper's kernel." if name else "Any algorithm of the registry.")
      for c in (1, 3) for base, words in (("im2col", "GEMM-im2col"), ("cudnn", "the fastest algorithm of cuDNN"))
      for name in ("reuse", None)),
    Claim("channels/many", PAPER, "no gain for many channels", "twelve_layers", _many_channels,
          "With many channels a filter's weights outgrow registers, and a matrix product reuses inputs over filters."),
    Claim("slides/table", SLIDES, "arithmetic intensity of tiles: 5x5 3.13, 7.03, 9.57; 9x9 -, 10.13, 22.78 OP/B",
          "intensity", _table, "Worked out from the plans of `tiled`; printed values are rounded half up."),
    Claim("slides/constant", SLIDES, "constant memory is quicker than a filter in global memory", "intensity",
          _gain("naive", "constant"), "A filter in global memory comes through the L1, one word for all lanes."),
    Claim("slides/tiled", SLIDES, "a tile in shared memory is quicker than constant memory alone", "intensity",
          _gain("constant", "tiled"),
          "The tile saves instructions and L1 sectors, more than its barriers and idle halo threads cost."),
    Claim("slides/halo", SLIDES, "halo elements left out of the tile come from the L2", "intensity", _halo_in_caches,
          "Mostly from the L1. What costs is the choice between tile and memory at every tap."),
    Claim("slides/halo gain", SLIDES, "a halo read from the caches is an optimisation of the tiled form", "intensity",
          _gain("tiled", "halo_cached"), "Up to four times the instructions and twenty times the sectors."),
    Claim("slides/coarsened", SLIDES, "several outputs a thread and several tiles a block are quicker", "intensity",
          _gain("tiled", "coarsened"), "Over `tiled`: a thread's outputs share addresses and weight reads."),
    Claim("im2win/im2col", IM2WIN, "3.5x over im2col + cuBLAS on average", "twelve_layers",
          _over("torch_im2col", published.IM2WIN_CLAIMS["im2col"], True),
          "Without the transform, as the document times it; over im2col as PyTorch runs it for each image."),
    Claim("im2win/im2col, all", IM2WIN, "the same, the transform included", "twelve_layers",
          _over("torch_im2col", published.IM2WIN_CLAIMS["im2col"], False), "im2col as PyTorch runs it; the quicker of "
          "PyTorch's and ours leaves 3.4x."),
    Claim("im2win/cudnn", IM2WIN, "1.1x over the best of cuDNN on average, up to 1.8x", "twelve_layers",
          _over("cudnn", published.IM2WIN_CLAIMS["cudnn"], True),
          "Without the transform. But for the layers of 3 channels cuDNN takes Winograd or FFT: fewer products."),
    Claim("im2win/lean", IM2WIN, "the same over cuDNN without workspace, the transform included", "twelve_layers",
          _over("lean", published.IM2WIN_CLAIMS["cudnn"], False), "By its own interface, or as PyTorch calls it "
          "where that held no memory."),
    Claim("im2win/direct", IM2WIN, "5x to 155x over direct convolution", "twelve_layers",
          _over("direct", published.IM2WIN_CLAIMS["direct"][0], False),
          "Our direct has lanes along columns, several filters a thread, one launch for the batch; theirs not."),
    Claim("im2win/basic", IM2WIN, "basic im2win improves on direct convolution", "twelve_layers", _basic,
          "Not in the document's own logs either: there it is slower than direct, or equal, on every layer."),
    Claim("im2win/ablations", IM2WIN, "the micro-kernel matters most, then vector loads, then prefetch",
          "twelve_layers", _ablation_order, "A call with its transform."),
    Claim("im2win/memory im2col", IM2WIN, "23.1 % less memory than im2col + cuBLAS", "memory",
          _saving("im2col image", published.MEMORY_CLAIMS["im2col"]),
          "PyTorch lowers one image at a time, so im2win of the whole batch is larger."),
    Claim("im2win/memory batch", IM2WIN, "the same against im2col of the whole batch", "memory",
          _saving("im2col batch", published.MEMORY_CLAIMS["im2col"]), "im2win is smaller on every layer."),
    Claim("im2win/memory cudnn", IM2WIN, "32.8 % less memory than cuDNN", "memory",
          _saving("cudnn", published.MEMORY_CLAIMS["cudnn"]),
          "cuDNN as PyTorch chooses it: with a large workspace on some layers, with none on most."),
)


def tables(rows: Rows) -> list[Table]:
    """A table for each document."""
    found = []
    for source in dict.fromkeys(claim.source for claim in CLAIMS):
        mine = [row for row in rows.values() if row.get("source") == source and row["status"] == OK]
        lines = tuple((row["says"], row["here"], row["holds"], row["study"], row["remark"]) for row in mine)
        holding = sum(row["holds"] is True for row in mine)
        found.append(Table(source, ("the document says", "here", "holds", "study", "remark"), lines,
                           f"{holding} of {len(mine)} hold."))
    return found


STUDY = Study("claims", "what the documents claim beside what was measured here", ABOUT, run, tables,
              needs_gpu=False)
