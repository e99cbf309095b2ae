"""One process's first kernels, timed: import, context, specialize(), again.

``python -m bench.studies.latency_target``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import click


@click.command()
@click.option("--device", default="cuda", show_default=True)
def main(device: str) -> None:
    """Print milliseconds as JSON; the cache and the compiler are those of the environment."""
    started = time.perf_counter()
    import warpconv
    from warpconv.codegen.shape import ConvShape
    found: dict[str, Any] = {"import_ms": 1e3 * (time.perf_counter() - started)}
    if device != "cpu":
        found["context_ms"] = _timed(_context)[0]
    first = ConvShape(c=1, h=64, w=64, k=1, r=5, s=5, padding=2)
    second = ConvShape(n=8, c=32, h=28, w=28, k=32, r=5, s=5, padding=2, groups=32)
    found["first_ms"], kernel = _timed(lambda: warpconv.specialize(first, device=device))
    found["second_ms"], _ = _timed(lambda: warpconv.specialize(second, device=device))
    found["memory_ms"] = min(_timed(lambda: warpconv.specialize(first, device=device))[0] for _ in range(20))
    found["other_size_ms"], _ = _timed(lambda: warpconv.specialize(first.with_batch(3), device=device))
    if kernel.report is not None:
        found |= {"compiler": kernel.report.compiler.value, "compile_ms": 1e3 * kernel.report.seconds}
    print(json.dumps(found))


def _context() -> None:
    from warpconv.runtime.devices.cuda import contexts
    with contexts.activate(0):
        pass


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return 1e3 * (time.perf_counter() - start), result


if __name__ == "__main__":
    main()
