"""``warpconv filter`` as a user starts it: a photograph of 12 megapixels from file to file, on the CPU device."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import WrongResult
from bench.report import environment
from bench.report.files import OK, Table
from bench.study import Context, Missing, Rows, Study

PHOTO = environment.ROOT / "docs" / "photos" / "china.jpg"
WIDTH, TRIAL_WIDTH = 4243, 424          # pixels; the height follows: 12.0 megapixels, or 0.12
CORES = 2
RUNS, TRIAL_RUNS = 7, 1
KERNEL = "gaussian:5,1.2"
MUST, AIM = 8.0, 3.0                    # seconds in all

ABOUT = f"""
`docs/photos/china.jpg`, a real photograph of 480 x 320 pixels, is enlarged to {WIDTH} pixels across (12.0 megapixels,
RGB) and kept as JPEG. Every row is a process of its own, from its start to its end, on {CORES} cores (its affinity):
start Python, import, read the file, filter, write the file. "cold": the cache is empty, so the kernel and the CPU
device's run time are compiled first; else they are in the disk cache. Seconds are medians; the least is beside them,
and the seconds of processor time, which other work on the machine does not change much. "load" is the machine's load
average before the row: above the number of its cores, others were waiting too, and the wall clock tells of them.

The result of `{KERNEL}` is compared first with the sums in float64, rounded and clipped, at every pixel. SciPy is
`scipy.ndimage.correlate` on the planes in float32, rounded and clipped, Pillow is `ImageFilter.Kernel`, which takes
3x3 and 5x5 and leaves a rim of two pixels as it was; both read and write as the command does.
"""

SCIPY = """
import sys, numpy as np
from PIL import Image
from scipy import ndimage
from warpconv.filters import weights
planes = np.asarray(Image.open(sys.argv[1])).transpose(2, 0, 1)
made = [ndimage.correlate(plane.astype(np.float32), weights("{kernel}"), mode="mirror") for plane in planes]
pixels = [Image.fromarray(np.clip(np.rint(plane), 0, 255).astype(np.uint8)) for plane in made]
Image.merge("RGB", pixels).save(sys.argv[2], quality=92)
"""
PILLOW = """
import sys
from PIL import Image, ImageFilter
from warpconv.filters import weights
kernel = ImageFilter.Kernel((5, 5), weights("{kernel}").ravel().tolist(), scale=1)
Image.open(sys.argv[1]).filter(kernel).save(sys.argv[2], quality=92)
"""


@dataclass(frozen=True)
class Case:
    """A row: options of ``filter``, or a peer's script; the output's suffix."""

    key: str
    options: tuple[str, ...] = ()
    script: str = ""
    suffix: str = ".jpg"
    cold: bool = False


CASES = (
    Case("5x5, cold", ("--kernel", KERNEL), cold=True),
    Case("5x5", ("--kernel", KERNEL)),
    Case("5x5 to PNG", ("--kernel", KERNEL), suffix=".png"),
    Case("5x5, float32 TIFF", ("--kernel", KERNEL, "--dtype", "float32"), suffix=".tif"),
    Case("sharpen 3x3", ("--kernel", "sharpen")),
    Case("three filters of 5x5", ("--kernel", KERNEL, "--kernel", "box:5", "--kernel", "unsharp:5,2")),
    Case("sobel, magnitude", ("--kernel", "sobel-x", "--kernel", "sobel-y", "--combine", "magnitude")),
    Case("SciPy 5x5", script=SCIPY), Case("Pillow 5x5", script=PILLOW))


def run(context: Context) -> None:
    context.expect(len(CASES) + 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        photo = enlarged(folder, TRIAL_WIDTH if context.quick else WIDTH)
        cores = sorted(os.sched_getaffinity(0))[:CORES]
        context.row("agreement", lambda: _agreement(photo, folder, cores), kind="agreement")
        for case in CASES:
            context.row(case.key, lambda case=case: _measure(case, photo, folder, cores,
                                                             TRIAL_RUNS if context.quick else RUNS),
                        kind="peer" if case.script else "row")


def enlarged(folder: Path, width: int) -> Path:
    """The photograph, that wide, as a JPEG."""
    from PIL import Image
    with Image.open(PHOTO) as image:
        made = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
    made.save(folder / "photo.jpg", quality=92)
    return folder / "photo.jpg"


def _agreement(photo: Path, folder: Path, cores: Sequence[int]) -> dict[str, Any]:
    """The largest distance from the sums in float64, less the half that rounding may take. Raises WrongResult."""
    from PIL import Image

    from warpconv.filters import weights
    out = folder / "check.png"
    _start(_command(Case("", ("--kernel", KERNEL)), photo, out), folder / "cache", cores)
    before, after = (np.asarray(Image.open(path)).astype(np.float64) for path in (photo, out))
    kernel, worst = weights(KERNEL).astype(np.float64), 0.0
    for plane in range(3):
        padded = np.pad(before[:, :, plane], [(n // 2, n // 2) for n in kernel.shape], "reflect")
        exact = sum(kernel[r, s] * padded[r:r + before.shape[0], s:s + before.shape[1]]
                    for r in range(kernel.shape[0]) for s in range(kernel.shape[1]))
        worst = max(worst, float(np.abs(after[:, :, plane] - np.clip(exact, 0, 255)).max()) - 0.5)
    if worst > 1e-3:
        raise WrongResult(f"{worst:.3g} beyond rounding")
    return {"beyond_rounding": worst, "pixels": int(before.shape[0] * before.shape[1])}


def _measure(case: Case, photo: Path, folder: Path, cores: Sequence[int], runs: int) -> dict[str, Any]:
    if "scipy" in case.script:
        _needs("scipy")
    load = os.getloadavg()[0]
    warm = folder / "cache"
    if not case.cold and not case.script:
        _start(_command(case, photo, folder / f"warm{case.suffix}"), warm, cores)
    found = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory(dir=folder) as empty:
            out = Path(empty) / f"out{case.suffix}"
            found.append(_start(_command(case, photo, out), Path(empty) / "cache" if case.cold else warm, cores))
    walls = [wall for wall, _, _ in found]
    told = json.loads(found[-1][2])["written"] if case.options else []
    return {"seconds": statistics.median(walls), "least": min(walls),
            "processor": statistics.median(used for _, used, _ in found), "runs": runs, "load": load,
            "call": told[0]["seconds"] if told else None, "algorithm": told[0]["algorithm"] if told else None,
            "must": MUST if case.key.startswith("5x5") and case.suffix == ".jpg" else None}


def _needs(package: str) -> None:
    import importlib.util
    if importlib.util.find_spec(package) is None:
        raise Missing(f"{package} is not installed")


def _command(case: Case, photo: Path, out: Path) -> list[str]:
    if case.script:
        return [sys.executable, "-c", case.script.format(kernel=KERNEL), str(photo), str(out)]
    return [sys.executable, "-m", "warpconv.cli", "filter", str(photo), str(out), *case.options, "--device", "cpu",
            "--json"]


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


def tables(rows: Rows) -> list[Table]:
    columns = ("row", "seconds", "least", "processor s", "the call itself, s", "algorithm", "load", "under 8 s",
               "under 3 s")
    found = [row for row in rows.values() if row["status"] == OK and row["kind"] != "agreement"]
    lines = tuple((row["key"], row["seconds"], row["least"], row["processor"], row["call"], row["algorithm"],
                   row["load"], _met(row, MUST), _met(row, AIM)) for row in found)
    return [Table("From file to file", columns, lines)]


def _met(row: Mapping[str, Any], seconds: float) -> str | None:
    """Whether the median is below; asked of the filter of 5x5 from JPEG to JPEG."""
    return None if row["must"] is None else "yes" if row["seconds"] < seconds else "no"


STUDY = Study("filter", "warpconv filter on a photograph of 12 megapixels, CPU device", ABOUT, run, tables,
              needs_gpu=False)
