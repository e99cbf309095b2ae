"""The documents' kernel in all its variants on one plane, beside a device copy, NPP, cuDNN and CuPy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.harness import Layer, compile_ahead, make_layer, run_kernel
from bench.peers import libraries as peers
from bench.report.files import OK, Table
from bench.study import Context, Rows, Study
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

SIZES, QUICK_SIZES = (1024, 2048, 4096, 8192), (4096,)
FILTERS, QUICK_FILTERS = (3, 5, 7), (3, 5)

ABOUT = """
One plane of float32, padding "same", a square filter. GB/s counts each input read once and each output written once;
times are medians of at least 20 samples by CUDA events (short kernels replayed as a CUDA graph), buffers rotate through
256 MB so that the L2 cache holds nothing of the next call, data are random. "% of copy" compares with the large device
copy measured in the same run (first table). Every kernel's result was checked at each output against float64 with the
bound (R*S + 2) eps sum|a b| before it was timed; "error" is the relative error in norm.

The base is the reuse algorithm with exchange=select, rows=reuse, decomposition=paper, weights=shared, edges=direct, 56
rows, 1 x 4 warps; each line names what differs from it. "figures form" is weights=constant with
edges=predicated; "default" is what the planner takes when nothing is asked for. Values that no line names (min_blocks,
ring, prefetch_rows) are the planner's; every row's values stand in the JSON.
Constant weights went through kernel.prepare(). Registers and local bytes are the driver's, spills the compiler's.
"""

BASE = {"exchange": "select", "rows": "reuse", "decomposition": "paper", "weights": "shared", "edges": "direct",
        "sub_block_rows": 56, "warp_columns": 1, "warp_rows": 4}
DEFAULT = "default"
_FORM = {"weights": "constant", "edges": "predicated"}


@dataclass(frozen=True)
class Config:
    """One line of the table: an algorithm and the plan values that differ from the base."""

    name: str
    algorithm: str = "reuse"
    values: Mapping[str, Any] = field(default_factory=dict)
    filters: tuple[int, ...] = FILTERS

    @property
    def settings(self) -> dict[str, Any]:
        return {**BASE, **self.values} if self.algorithm == "reuse" and self.name != DEFAULT else dict(self.values)


def configurations() -> tuple[Config, ...]:
    """The base, one change at a time, the form of the recorded figures, and direct."""
    changes: list[dict[str, Any]] = [
        *({"exchange": e} for e in ("packed", "dynamic", "dynamic_local", "none")),
        {"rows": "reload"}, {"rows": "reload", "exchange": "none"}, {"edges": "predicated"},
        {"weights": "constant"}, {"weights": "cached"}, {"sub_block_rows": 28}, {"sub_block_rows": 16},
        {"prefetch_rows": 1}, {"prefetch_rows": 1, "edges": "predicated"}, {"ring": "shifted"},
        {"warp_columns": 4, "warp_rows": 1}, {"warp_columns": 2, "warp_rows": 2}, {"min_blocks": 1}]
    configs = [Config(DEFAULT), Config("base"), *(Config(_words(c), values=c) for c in changes)]
    configs.append(Config("decomposition=shared_ends", values={"decomposition": "shared_ends"}, filters=(7,)))
    for rows in (56, 16):
        configs += [Config(f"figures form, {exchange}, {rows} rows",
                           values={**_FORM, "exchange": exchange, "sub_block_rows": rows})
                    for exchange in ("packed", "select", "none")]
    configs.append(Config("figures form, select, 16 rows, min_blocks=1",
                          values={**_FORM, "sub_block_rows": 16, "min_blocks": 1}))
    direct = ({}, {"block_size_x": 32, "block_size_y": 8}, {"block_size_x": 128, "block_size_y": 2})
    return (*configs, *(Config(f"direct{', ' if d else ''}{_words(d)}", "direct", d) for d in direct))


def _words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def plane(size: int, taps: int) -> ConvShape:
    return ConvShape(c=1, h=size, w=size, k=1, r=taps, s=taps, padding="same")


def run(context: Context) -> None:
    sizes = QUICK_SIZES if context.quick else SIZES
    filters = QUICK_FILTERS if context.quick else FILTERS
    configs = {taps: [c for c in configurations() if taps in c.filters] for taps in filters}
    context.expect(2 + sum(len(sizes) * (len(c) + len(peers.PLANE_PEERS)) for c in configs.values()))
    context.row("ceiling/sgemm", lambda: peers.gemm_ceiling(context.device), kind="ceiling")
    context.row("ceiling/copy", lambda: peers.copy_ceiling(context.device), kind="ceiling")
    context.device.free()
    for taps in filters:
        if context.pending(_key(size, taps, c.name) for size in sizes for c in configs[taps]):
            context.say(f"compiling {taps}x{taps}")
            compile_ahead(context.device, [lambda c=c, size=size, taps=taps: _plan(context, plane(size, taps), c)
                                           for c in configs[taps]
                                           for size in (sizes if c.name == DEFAULT else sizes[:1])])
        for size in sizes:
            _one_plane(context, size, taps, configs[taps])


def _one_plane(context: Context, size: int, taps: int, configs: Iterable[Config]) -> None:
    shape = plane(size, taps)
    names = {_key(size, taps, x.name): x for x in (*peers.PLANE_PEERS, *configs)}
    layer = make_layer(context.device, shape) if context.pending(names) else None
    for key, what in names.items():
        fields = {"kind": "peer" if isinstance(what, peers.Peer) else "ours", "name": what.name, "size": size,
                  "filter": taps}
        context.row(key, lambda what=what, layer=layer: _measure(context, layer, what), **fields)
    del layer
    context.device.free()


def _measure(context: Context, layer: Layer, what: Any) -> dict[str, Any]:
    moved = 4 * 2 * layer.shape.h * layer.shape.w
    if isinstance(what, peers.Peer):
        found = peers.run_peer(context.device, layer, what)
    else:
        plan = _plan(context, layer.shape, what)
        found = {"settings": plan.settings(), **run_kernel(context.device, layer, plan)}
    return {"gbs": moved / found["ms"] / 1e6, **found}


def _plan(context: Context, shape: ConvShape, config: Config) -> Any:
    return plan_layer(shape, algorithm=config.algorithm, arch=context.device.arch, settings=config.settings)


def _key(size: int, taps: int, name: str) -> str:
    return f"{taps}x{taps}/{size}/{name}"


# ---- what is shown

def tables(rows: Rows) -> list[Table]:
    shown = [_ceilings(rows)] if any(r.get("kind") == "ceiling" for r in rows.values()) else []
    return shown + [_filter_table(rows, taps) for taps in _present(rows, "filter")]


def _ceilings(rows: Rows) -> Table:
    copy, gemm = rows.get("ceiling/copy", {}), rows.get("ceiling/sgemm", {})
    return Table("Ceilings", ("what", "value", "unit"), (("device copy, read + write", copy.get("gbs"), "GB/s"),
                                                         ("SGEMM 8192^3, TF32 off", gemm.get("tflops"), "TFLOP/s")))


def _filter_table(rows: Rows, taps: int) -> Table:
    mine = [r for r in rows.values() if r.get("filter") == taps and r["status"] == OK]
    sizes = _present({r["key"]: r for r in mine}, "size")
    largest, copy = (sizes[-1] if sizes else 0), rows.get("ceiling/copy", {}).get("gbs")
    lines = []
    for name in dict.fromkeys(r["name"] for r in mine):
        at = {r["size"]: r for r in mine if r["name"] == name}
        last = at.get(largest, {})
        any_row = next(iter(at.values()))
        share = 100 * last["gbs"] / copy if copy and "gbs" in last else None
        lines.append((name, *(any_row.get(c) for c in ("registers", "local_bytes", "spill_bytes")),
                      *(at.get(size, {}).get("gbs") for size in sizes), share, _rate(last),
                      _exponent(last.get("error"))))
    columns = ("variant", "registers", "local bytes", "spilled bytes", *(f"{s}^2 GB/s" for s in sizes),
               f"% of copy at {largest}^2", f"TFLOP/s at {largest}^2", "error")
    return Table(f"{taps}x{taps}", columns, tuple(lines))


def _rate(row: Mapping[str, Any]) -> float | None:
    if "ms" not in row or row.get("name") == "device copy":
        return None
    return 2 * row["filter"] ** 2 * row["size"] ** 2 / row["ms"] / 1e9


def _exponent(error: float | None) -> str | None:
    return None if error is None else f"{error:.1e}"


def _present(rows: Rows, name: str) -> list[int]:
    return sorted({r[name] for r in rows.values() if name in r})


def plot(rows: Rows, figure: Any) -> None:
    """Bars at the largest size, one panel a filter; peers in grey, the copy ceiling as a line."""
    filters = _present(rows, "filter")
    figure.set_size_inches(4.2 * max(1, len(filters)), 6.5)
    copy = rows.get("ceiling/copy", {}).get("gbs")
    for i, taps in enumerate(filters):
        axes = figure.add_subplot(1, len(filters), i + 1)
        mine = [r for r in rows.values() if r.get("filter") == taps and r["status"] == OK]
        largest = max((r["size"] for r in mine), default=0)
        bars = [r for r in mine if r["size"] == largest][::-1]
        axes.barh([r["name"] for r in bars], [r["gbs"] for r in bars],
                  color=["0.6" if r["kind"] == "peer" else "tab:blue" for r in bars])
        if copy:
            axes.axvline(copy, color="tab:red", linewidth=1)
        axes.set_title(f"{taps}x{taps} on {largest}^2")
        axes.set_xlabel("GB/s")
        axes.tick_params(axis="y", labelsize=6)


STUDY = Study("variants", "the documents' kernel in all variants on planes, beside copy, NPP, cuDNN and CuPy", ABOUT,
              run, tables, plot)
