"""A model to a pack, without a GPU: how long ``warpconv build resnet50.onnx`` takes, cold, and what explain's times are
worth."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import WrongResult
from bench.onnx_model import STAGES, write_resnet50
from bench.report import environment
from bench.report.files import OK, Table
from bench.study import Context, Rows, Study

CORES = 2
RUNS, TRIAL_RUNS = 3, 1
MUST, AIM = 60.0, 30.0                  # seconds
ARCHS = "sm_80,sm_90"
LARGEST = 14                            # rows and columns of the layers that the CPU device executes
NETWORKS = environment.ROOT / "docs" / "results" / "networks" / "networks.json"
FORMS: Mapping[str, tuple[str, ...]] = {"float32": (), "float16 NHWC": ("--dtype", "float16", "--layout", "NHWC")}

ABOUT = f"""
resnet50 is written as an ONNX file of 53 convolutions, each with its batch normalisation, with drawn weights of 102 MB
(`bench/onnx_model.py`). Every build is `warpconv build resnet50.onnx --dim batch=1 --arch {ARCHS}`, a process of its
own from its start to its end on {CORES} cores (its affinity), without a GPU, compiled by NVRTC. "cold": cache and pack
are empty. "again": the same command once more. Seconds are medians of {RUNS} runs; the least is beside them, and the
processor's seconds. "load" is the machine's load average before the row: above the number of its cores, others were
waiting too.

"agreement": every layer of the pack that differs from the others is called by its node (`pack.conv`) with its filter of
the pack, on an image of at most {LARGEST} x {LARGEST} pixels on the CPU device, and compared with float64 sums of the
model's own weights and normalisation, each output with its error bound: 1 is the bound.

"What explain's times are worth": `explain`'s expected time of every layer that the study `networks` measured on an H200
(float16), over the measured one: the median, and the tenth and ninetieth of a hundred.
"""


@dataclass(frozen=True)
class Case:
    """A row: how the model is built."""

    key: str
    form: str
    weights: bool = False
    again: bool = False


CASES = tuple(Case(f"{form}{', with weights' if weights else ''}, {'again' if again else 'cold'}", form, weights, again)
              for form in FORMS for weights, again in ((False, False), (True, False), (True, True)))


def run(context: Context) -> None:
    try:
        import onnx  # noqa: F401 - its absence is told before anything is measured
    except ImportError as error:
        raise ValueError("this study needs onnx: pip install 'warpconv[onnx]'") from error
    measured = list(_measured())
    groups = sorted({group for group, _ in measured})
    context.expect(len(CASES) + len(FORMS) + len(groups))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = write_resnet50(folder / "resnet50.onnx", stages=(1,) if context.quick else STAGES)
        cores = sorted(os.sched_getaffinity(0))[:CORES]
        for case in CASES:
            context.row(case.key, lambda case=case: _measure(case, model, cores, TRIAL_RUNS if context.quick else RUNS),
                        kind="build")
        for form in FORMS:
            context.row(f"agreement, {form}", lambda form=form: _agreement(form, model, folder), kind="agreement")
    for group in groups:
        ratios = [ratio for of, ratio in measured if of == group]
        context.row(f"expected: {group}", lambda ratios=ratios: _spread(ratios), kind="expected")


def _measure(case: Case, model: Path, cores: Sequence[int], runs: int) -> dict[str, Any]:
    load, found, told = os.getloadavg()[0], [], {}
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as name:
            command = [sys.executable, "-m", "warpconv.cli", "build", str(model), "--dim", "batch=1", "--arch", ARCHS,
                       "-o", f"{name}/pack.zip", *FORMS[case.form], *(["--weights"] if case.weights else []), "--json"]
            if case.again:
                _start(command, Path(name) / "cache", cores)
            wall, used, output = _start(command, Path(name) / "cache", cores)
            found.append((wall, used))
            told = {**json.loads(output), "bytes": (Path(name) / "pack.zip").stat().st_size}
    walls, rows = [wall for wall, _ in found], told["kernels"]
    return {"seconds": statistics.median(walls), "least": min(walls), "runs": runs, "load": load,
            "processor": statistics.median(used for _, used in found), "layers": len({row["name"] for row in rows}),
            "rows": len(rows), "statuses": sorted({row["status"] for row in rows}), "bytes": told["bytes"]}


def _start(command: Sequence[str], cache: Path, cores: Sequence[int]) -> tuple[float, float, str]:
    """Run a process on the cores: seconds by the wall's clock, seconds of processor, output."""
    environ: Mapping[str, str] = {**os.environ, "WARPCONV_CACHE_DIR": str(cache)}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environ, capture_output=True, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, cores))
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it failed")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def _agreement(form: str, model: Path, folder: Path) -> dict[str, Any]:
    """The worst output of every layer, of its own bound. Raises WrongResult."""
    from warpconv.runtime.models.model import alike
    from warpconv.runtime.models.source import read_model
    from warpconv.runtime.pack.pack import build_pack, open_pack
    options = dict(zip(("dtype", "layout"), FORMS[form][1::2]))
    layers = read_model(model, {"batch": 1}, **options)     # type: ignore[arg-type]
    chosen = [layer for layer, _ in alike(layers)]
    build_pack(chosen, folder / f"{form}.zip", ["sm_90"], weights=True)
    pack, worst, rng = open_pack(folder / f"{form}.zip"), 0.0, np.random.default_rng(1)
    for layer in chosen:
        worst = max(worst, _ratio(pack.conv(layer.node, device="cpu"), layer, model, rng))
    if not worst <= 1.0:
        raise WrongResult(f"{worst:.3g} of the bound")
    return {"worst": worst, "kernels": len(chosen)}


def _ratio(served: Any, layer: Any, model: Path, rng: Any) -> float:
    """The largest part of its bound that an output of a call is off by. The reference folds by itself, from the
    file."""
    import onnx

    from warpconv.runtime.accuracy.reference import compare
    from warpconv.runtime.arrays import numpy_dtype
    from warpconv.runtime.arrays.elements import drawn
    held = {tensor.name: tensor for tensor in onnx.load(model).graph.initializer}
    name = layer.node.strip("/").replace("/", ".").removesuffix(".conv")
    w, scale, shift, mean, variance = (
        onnx.numpy_helper.to_array(held[f"{name}.{part}"]).astype(np.float64)
        for part in ("weight", "scale", "shift", "mean", "variance"))
    by = scale / np.sqrt(variance + 1e-5)
    shape = replace(layer.shape, h=min(layer.shape.h, LARGEST), w=min(layer.shape.w, LARGEST))
    x = drawn(rng, shape.layout.stored(shape.input_shape), shape.dtype)
    residual = drawn(rng, shape.layout.stored(shape.output_shape), shape.dtype) if layer.residual else None
    y = served(x, residual=residual, layout=shape.layout)
    weight, bias = (part.astype(numpy_dtype(shape.dtype)) for part in (w * by[:, None, None, None], shift - mean * by))
    return float(compare(y, x, weight, shape, bias=bias, residual=residual, epilogue=layer.epilogue).worst_ratio)


def _measured() -> Iterator[tuple[str, float]]:
    """What explain expects over what was measured, for every row of the study networks, with what it is a row of."""
    from warpconv.codegen.errors import WarpconvError
    from warpconv.codegen.select import plan_layer
    from warpconv.codegen.shape import ConvShape
    from warpconv.runtime.models.expected import seconds
    for row in json.loads(NETWORKS.read_text(encoding="utf-8"))["rows"]:
        if row["status"] != OK or "ours" not in row:
            continue
        c, h, taps, k, stride, padding, groups = row["layer"]
        shape = ConvShape(n=row["batch"], c=c, h=h, w=h, k=k, r=taps, s=taps, stride=stride, padding=padding,
                          groups=groups, dtype="float16", layout=row["layout"])
        try:
            plan = plan_layer(shape, algorithm=row["algorithm"], settings=row["plan"], arch="sm_90")
        except WarpconvError:           # plan values that this version does not take
            continue
        ratio = seconds(plan, shape) * 1e6 / row["ours"]
        yield f"{row['layout']}, batch {row['batch']}, {row['algorithm']}", ratio
        yield "all", ratio


def _spread(ratios: Sequence[float]) -> dict[str, Any]:
    low, median, high = np.quantile(ratios, [0.1, 0.5, 0.9])
    return {"layers": len(ratios), "low": float(low), "median": float(median), "high": float(high)}


def tables(rows: Rows) -> list[Table]:
    done = {key: row for key, row in rows.items() if row["status"] == OK}
    builds = tuple((key, row["seconds"], row["least"], row["processor"], row["layers"], row["rows"],
                    row["bytes"] / 1e6, row["load"], *_met(key, row))
                   for key, row in done.items() if row["kind"] == "build")
    agreed = tuple((key.partition(", ")[2], row["kernels"], row["worst"]) for key, row in done.items()
                   if row["kind"] == "agreement")
    spread = tuple((key.removeprefix("expected: "), row["layers"], row["low"], row["median"], row["high"])
                   for key, row in done.items() if row["kind"] == "expected")
    return [Table(f"warpconv build resnet50.onnx --arch {ARCHS}, two cores, no GPU",
                  ("build", "seconds", "least", "processor s", "layers", "rows", "pack, MB", "load", "under 60 s",
                   "under 30 s"), builds),
            Table("Agreement", ("build", "kernels", "worst error, of its bound"), agreed),
            Table("What explain's times are worth: expected over measured", ("layers of networks", "rows", "10 %",
                                                                             "median", "90 %"), spread)]


def _met(key: str, row: Mapping[str, Any]) -> tuple[str | None, str | None]:
    if not key.endswith("cold"):
        return None, None
    return "yes" if row["seconds"] < MUST else "no", "yes" if row["seconds"] < AIM else "no"


STUDY = Study("models", "a model to a pack: building resnet50.onnx for two architectures, cold, without a GPU", ABOUT,
              run, tables, needs_gpu=False)
