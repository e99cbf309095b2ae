"""``python -m bench.trees OTHER``: is this tree as quick as another checkout of it? Layer by layer, in turns.

The layers are the reduced sets of the studies memory_wall, images and twelve_layers. Each tree has a process of its
own, which makes its kernel by ``specialize`` and captures calls over buffers that rotate past the second-level cache as
a CUDA graph; both wrote about the same, and the two graphs replay in turns, so that what drifts drifts for both. A
row's ratio is the median of the turns' (the other tree's time over this one's: above 1 this one is quicker), with the
95 % interval that their order gives. A row that looks slower is measured again, in more turns.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TURNS, AGAIN = 12, 40
LOOKS_SLOWER = 0.995
SAMPLE_MS = 4.0             # of replays between two events
ROTATED_BYTES = 256 << 20   # of inputs and outputs that a graph goes round
MOST_SETS = 32
SLOWER = 0.98               # a row fails where its interval lies below
MOST_DIFFERENCE = 1e-2      # of the two results' sums of squares: both are compared with float64 by the tests


# ---- the layers, by the fields that both trees' ConvShape takes

def rows(trial: bool = False) -> Iterator[dict[str, Any]]:
    """Name, fields and epilogue of each layer; ``trial``: sizes that a host computes."""
    from warpconv.codegen.serialise import encode
    from warpconv.runtime.layers import read_layers

    from .studies.contest import trial as small
    from .studies.image_layers import batches, gaussians
    from .studies.twelve_layers import QUICK
    from .studies.wall_layers import layers

    def row(name: str, shape: Any, epilogue: Sequence[str] = ()) -> dict[str, Any]:
        return {"name": name, "layer": encode(shape), "epilogue": list(epilogue)}

    for wall in layers():
        if wall.quick:
            yield row(wall.key, wall.trial if trial else wall.shape)
    for batch in batches(True, trial):
        for each in batch.rows:
            yield row(batch.key(each), each.shape, each.epilogue)
    for curve in gaussians(True, trial):
        yield {"name": f"gaussian/{curve.name}", "gaussian": [curve.size, curve.sigma, curve.radius]}
    for layer in read_layers("twelve_layers"):
        if layer.name in QUICK:
            yield row(f"twelve_layers/{layer.name}", small(layer.shape) if trial else layer.shape)


# ---- a tree's process: orders come as lines of JSON, and so do answers

class Worker:
    """One tree's kernels."""

    def __init__(self, device: str):
        self.device = device
        self.kernels: dict[str, Any] = {}
        self.call: Any = None
        self.y: Any = None
        if device == "cuda":
            import torch
            self.torch = torch

    def make(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Specialise all layers, several at a time."""
        import warpconv

        def made(row: dict[str, Any]) -> Any:
            return warpconv.specialize(warpconv.ConvShape(**_fields(row["layer"])), device=self.device,
                                       epilogue=row["epilogue"], layout="NCHW")

        with ThreadPoolExecutor(8) as pool:
            jobs = {row["name"]: pool.submit(made, row) for row in rows if "layer" in row}
        said = {}
        for name, job in jobs.items():
            if job.exception() is not None:
                said[name] = f"{type(job.exception()).__name__}: {job.exception()}"
            else:
                self.kernels[name] = job.result()
        return {"failed": said}

    def load(self, row: dict[str, Any]) -> dict[str, Any]:
        """Buffers, a first call whose result is told by a few sums, and the graph."""
        calls = self._gaussian(*row["gaussian"]) if "gaussian" in row else self._layer(row)
        calls[0]()
        sums = self._sums()
        algorithm = self.kernels[row["name"]].spec.algorithm if row["name"] in self.kernels else ""
        if self.device == "cpu":
            self.call, self.each = calls[0], 1
            return {"sums": sums, "algorithm": algorithm}
        torch = self.torch
        with torch.cuda.stream(torch.cuda.Stream()):
            for call in calls:
                call()
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        calls[0]()
        end.record()
        end.synchronize()
        self.each = len(calls) * max(1, min(64, int(0.5 / max(begin.elapsed_time(end), 1e-3) / len(calls))))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for number in range(self.each):
                calls[number % len(calls)]()
        self.call = graph.replay
        self.sample()
        return {"sums": sums, "algorithm": algorithm}

    def sample(self) -> dict[str, Any]:
        """Microseconds of a call, in one sample."""
        if self.device == "cpu":
            start = time.perf_counter()
            self.call()
            return {"us": 1e6 * (time.perf_counter() - start)}
        torch = self.torch
        count, begin = 0, time.perf_counter()
        first, last = torch.cuda.Event(True), torch.cuda.Event(True)
        self.call()             # the clocks, and what the other tree left in the caches
        first.record()
        while count < 2 or (time.perf_counter() - begin < SAMPLE_MS / 1e3 and count < 200):
            self.call()
            count += 1
        last.record()
        last.synchronize()
        return {"us": 1e3 * first.elapsed_time(last) / count / self.each}

    def free(self) -> dict[str, Any]:
        self.call = self.y = None
        if self.device == "cuda":
            self.torch.cuda.empty_cache()
        return {}

    def _array(self, sizes: Any, seed: int, dtype: str, last: bool = False) -> Any:
        """Drawn by a seed, so that both trees have the same; ``last``: channels lie innermost."""
        import numpy as np
        if self.device == "cpu":
            rng = np.random.default_rng(seed)
            whole = dtype.startswith(("u", "i"))
            return (rng.integers(0, 100, sizes) if whole else rng.standard_normal(sizes)).astype(dtype)
        torch = self.torch
        rng = torch.Generator("cuda").manual_seed(seed)
        kind = getattr(torch, dtype)
        if kind.is_floating_point:
            made = torch.randn(tuple(sizes), generator=rng, device="cuda").to(kind)
        else:
            made = torch.randint(0, 100, tuple(sizes), generator=rng, device="cuda").to(kind)
        return made.contiguous(memory_format=torch.channels_last) if last else made

    def _layer(self, row: dict[str, Any]) -> list[Any]:
        import warpconv
        shape, kernel = warpconv.ConvShape(**_fields(row["layer"])), self.kernels[row["name"]]
        last = shape.layout.value == "NHWC" and self.device == "cuda"
        moved = sum(math.prod(sizes) * dtype.itemsize for sizes, dtype in (
            (shape.input_shape, shape.dtype), (shape.output_shape, shape.y_dtype)))
        sets = max(1, min(MOST_SETS, math.ceil(ROTATED_BYTES / moved))) if self.device == "cuda" else 1
        xs = [self._array(shape.input_shape, i, shape.dtype.value, last) for i in range(sets)]
        ys = [self._array(shape.output_shape, 0, shape.y_dtype.value, last) for _ in range(sets)]
        w = self._array(shape.weight_shape, 1000, shape.w_dtype.value, last and shape.groups == 1)
        more = {}
        if "bias" in row["epilogue"]:
            more["bias"] = self._array((shape.k,), 1001, "float32")
        if "residual" in row["epilogue"]:
            more["residual"] = self._array(shape.output_shape, 1002, shape.y_dtype.value, last)
        filter = kernel.prepare(w)
        self.y = ys[0]
        return [lambda x=x, y=y: kernel(x, filter, out=y, **more) for x, y in zip(xs, ys)]

    def _gaussian(self, size: int, sigma: float, radius: int | None) -> list[Any]:
        import warpconv
        truncate = 4.0 if radius is None else radius / sigma
        device = {"device": "cpu"} if self.device == "cpu" else {}
        xs = [self._array((size, size), i, "float32") for i in range(2)]
        ys = [self._array((size, size), 9, "float32") for _ in range(2)]
        self.y = ys[0]
        return [lambda x=x, y=y: warpconv.gaussian_filter(x, sigma, truncate=truncate, output=y, **device)
                for x, y in zip(xs, ys)]

    def _sums(self) -> list[float]:
        """Sum of squares of the output, of its first half and of every third element."""
        y = self.y.reshape(-1)
        y = y.astype("float64") if self.device == "cpu" else y.double()
        return [float((part * part).sum()) for part in (y, y[:len(y) // 2], y[::3])]


def _fields(stored: dict[str, Any]) -> dict[str, Any]:
    """Lists as tuples, as a ConvShape takes them."""
    return {name: tuple(tuple(one) if isinstance(one, list) else one for one in value) if isinstance(value, list)
            else value for name, value in stored.items()}


def work(device: str) -> None:
    worker = Worker(device)
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = getattr(worker, order["do"])(*order["with"])
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


# ---- the comparison

def link_package(root: Path, folder: Path) -> None:
    """Make ``folder`` a place on Python's path where ``warpconv`` is that of a checkout."""
    package = folder / "warpconv"
    package.mkdir(parents=True)
    for path in (*(root / "api").iterdir(), *(root / name for name in ("codegen", "runtime", "templates"))):
        (package / path.name).symlink_to(path)


class Tree:
    """A checkout, and the process that has its kernels."""

    def __init__(self, root: Path, device: str, scratch: Path):
        link_package(root, scratch)
        environment = {**os.environ, "WARPCONV_CACHE_DIR": str(scratch / "cache"),
                       "PYTHONPATH": f"{scratch}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        self.process = subprocess.Popen([sys.executable, str(Path(__file__).resolve()), "--worker", "--device", device],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
                                        cwd=scratch)

    def send(self, do: str, *given: Any) -> None:
        assert self.process.stdin is not None
        print(json.dumps({"do": do, "with": given}), file=self.process.stdin, flush=True)

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit("a tree's process has ended")
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, do: str, *given: Any) -> dict[str, Any]:
        self.send(do, *given)
        return self.answer()


def compare(trees: Sequence[Tree], row: dict[str, Any]) -> dict[str, Any]:
    """A row's times and ratio; what went wrong, in words."""
    found = _loaded(trees, row)
    for tree in trees:
        tree.ask("free")
    return {"name": row["name"], **found}


def _loaded(trees: Sequence[Tree], row: dict[str, Any]) -> dict[str, Any]:
    found = [tree.ask("load", row) for tree in trees]
    wrong = [f"{who}: {one['error']}" for who, one in zip(("this", "other"), found) if "error" in one]
    if wrong:
        return {"failed": "; ".join(wrong)}
    for ours, theirs in zip(found[0]["sums"], found[1]["sums"]):
        if not abs(ours - theirs) <= MOST_DIFFERENCE * theirs:
            return {"failed": f"results differ: {found[0]['sums']}, {found[1]['sums']}"}
    result = _turns(trees, TURNS)
    if result["ratio"] < LOOKS_SLOWER:
        result = _turns(trees, AGAIN)
    return {"algorithms": [one["algorithm"] for one in found], **result}


def _turns(trees: Sequence[Tree], turns: int) -> dict[str, Any]:
    ours, theirs = [], []
    for turn in range(turns):
        times = {}
        for number in ((0, 1), (1, 0))[turn % 2]:
            times[number] = trees[number].ask("sample")["us"]
        ours.append(times[0])
        theirs.append(times[1])
    ratios = sorted(b / a for a, b in zip(ours, theirs))
    step = math.ceil(0.98 * math.sqrt(turns))        # of the order of the turns, to each side of the middle: 95 %
    low, high = max(0, turns // 2 - step), min(turns - 1, turns // 2 + step - 1 + turns % 2)
    return {"us": statistics.median(ours), "other_us": statistics.median(theirs), "ratio": statistics.median(ratios),
            "low": ratios[low], "high": ratios[high], "turns": turns}


def table(found: Sequence[dict[str, Any]]) -> str:
    lines = ["| layer | us | of the other tree | ratio | 95 % | |", "| --- | --: | --: | --: | --- | --- |"]
    for one in found:
        if "failed" in one:
            lines.append(f"| {one['name']} | | | | | {one['failed'][:200]} |")
            continue
        here, there = one["algorithms"]
        notes = [] if here == there else [f"{there} -> {here}"]
        notes += ["**slower**"] if one["high"] < SLOWER else []
        lines.append(f"| {one['name']} | {one['us']:.2f} | {one['other_us']:.2f} | {one['ratio']:.3f} | "
                     f"{one['low']:.3f} to {one['high']:.3f} | {', '.join(notes)} |")
    measured = [one for one in found if "ratio" in one]
    mean = math.exp(statistics.fmean(math.log(one["ratio"]) for one in measured)) if measured else math.nan
    slower = sum(one["high"] < SLOWER for one in measured)
    return "\n".join([*lines, "", f"{len(measured)} of {len(found)} rows measured; geometric mean {mean:.3f}; {slower} "
                      f"slower than {SLOWER} of the other tree."])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.trees", description=__doc__.splitlines()[0])
    parser.add_argument("other", nargs="?", type=Path, help="the checkout to compare with")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu tries the comparison out")
    parser.add_argument("--only", action="append", metavar="PART",
                        help="rows whose names contain this (may be given again)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no row after so many")
    parser.add_argument("-o", "--output", type=Path, default=Path("trees"), help="written with .json and .md")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker:
        work(given.device)
        return
    if given.other is None or not (given.other / "codegen").is_dir():
        parser.error("OTHER is a checkout of warpconv")
    parts = given.only or [""]
    chosen = [row for row in rows(given.device == "cpu") if any(part in row["name"] for part in parts)]
    start, found = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="warpconv-trees-") as scratch:
        trees = [Tree(root.resolve(), given.device, Path(scratch) / name)
                 for name, root in (("this", ROOT), ("other", given.other))]
        for tree in trees:
            tree.send("make", chosen)
        for who, tree in zip(("this", "other"), trees):
            for name, why in tree.answer()["failed"].items():
                print(f"{who}: {name}: {why}", flush=True)
        for row in chosen:
            if time.monotonic() - start > given.seconds:
                found.append({"name": row["name"], "failed": "no time was left"})
                continue
            found.append(compare(trees, row))
            print(json.dumps(found[-1]), flush=True)
            given.output.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            given.output.with_suffix(".md").write_text(table(found) + "\n", encoding="utf-8")
        for tree in trees:
            assert tree.process.stdin is not None
            tree.process.stdin.close()
            tree.process.wait()


if __name__ == "__main__":
    main()
