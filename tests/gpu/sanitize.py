"""Every algorithm x variant once, gradients too, for compute-sanitizer:
``compute-sanitizer ... python -m tests.gpu.sanitize``.

Arrays are exactly as large as their elements, so that an access one past the end is seen. ``--shared`` runs the
kernels with shared memory alone (racecheck, synccheck), ``--no-mbarriers`` leaves out those whose loads and stores of
shared memory mbarriers order, which racecheck does not follow (mbarrier_ring.cu); names of algorithms run theirs alone.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from tests import cases, reference
from tests.gpu import gradient_variants, support
from warpconv.codegen.errors import ShapeError
from warpconv.codegen.render import render

SIZES = ((2, 37, 71), (2, 36, 72), (2, 28, 28), (2, 14, 14), (2, 7, 7))     # the first that a plan takes


def main(arguments: list[str]) -> int:
    from warpconv.runtime.devices.cuda import contexts
    contexts.driver()
    names = {name for name in arguments if not name.startswith("-")}
    planned = [(case, *_planned(case)) for case in (*cases.variants(), *cases.variants("volume"))
               if support.runs(case) and (not names or case.algorithm in names)]
    chosen = [(case, plan, shape) for case, plan, shape in planned
              if "--shared" not in arguments or "__shared__" in render(plan).text]
    if "--no-mbarriers" in arguments:
        chosen = [(case, plan, shape) for case, plan, shape in chosen if not _by_mbarriers(plan)]
    with support.primary_context():
        from pycuda import gpuarray
        support.build_ahead([case for case, _, _ in chosen], {case: (shape,) for case, _, shape in chosen})
        for case, plan, shape in chosen:
            kernel = support.kernel_of(plan, shape)
            layer = support.Layer(shape, seed=case.number, epilogue=case.epilogue, numerics=case.numerics)
            x, w = gpuarray.to_gpu(layer.x), gpuarray.to_gpu(layer.w)
            bias, residual = (None if a is None else gpuarray.to_gpu(a) for a in (layer.bias, layer.residual))
            out = gpuarray.to_gpu(reference.poisoned(shape))
            kernel(x, w, bias, residual=residual, out=out)
            layer.check(out, case.id)
        gradients = _gradients(names, "--shared" in arguments)
        gradient_variants.compile_ahead(gradients)
        for case, shape in gradients:
            gradient_variants.run(case, shape, placed=gpuarray.to_gpu)
    print(f"{len(chosen)} variants ran, {len(gradients)} of gradients; left out: {support.no_cublas()}")
    return 0


def _planned(case: cases.Case) -> tuple[Any, Any]:
    """The plan and size of a variant: of SIZES, else the case's own."""
    (plan, (shape, *_)), *_ = case.plans(_usual(case), support.arch()) or case.plans(case.sizes(), support.arch())
    return plan, shape


def _gradients(names: set[str], shared: bool) -> list[tuple[Any, Any]]:
    rooms = [name for name in gradient_variants.ROOMS if not names or name in names]
    return [(case, shape) for name in rooms for case, shape in gradient_variants.of(name)
            if not shared or "__shared__" in render(case.plan(support.arch(), shape)).text]


def _by_mbarriers(plan: Any) -> bool:
    """Warps split pixels where they lie, and mbarriers alone stand between them and those that multiply."""
    return plan.spec.algorithm == "wgmma" and "split_box(" in render(plan).text


def _usual(case: cases.Case) -> tuple[Any, ...]:
    """SIZES that give the case's filter an output."""
    found = []
    for size in SIZES:
        with contextlib.suppress(ShapeError):
            found.append(case.shape(*size))
    return tuple(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
