"""Every algorithm x variant once, for compute-sanitizer: ``compute-sanitizer ... python -m tests.gpu.sanitize``.

Arrays are exactly as large as their elements, so that an access one past the end is seen. ``--racecheck`` runs the
kernels with shared memory alone.
"""

from __future__ import annotations

import sys

import numpy as np

from tests import cases
from tests.gpu import support


def main(arguments: list[str]) -> int:
    from warpconv.runtime.cuda import contexts
    contexts.driver()
    chosen = [case for case in cases.variants()
              if "--racecheck" not in arguments or dict(case.values).get("weights") == "shared"]
    with support.primary_context():
        from pycuda import gpuarray
        support.build_ahead(chosen)
        for case in chosen:
            plan = case.plan(support.arch())
            kernel = support.kernel_of(plan)
            layer = support.Layer(case.shape(2, 37, 71), seed=case.number, epilogue=case.epilogue)
            x, w = gpuarray.to_gpu(layer.x), gpuarray.to_gpu(layer.w)
            bias = None if layer.bias is None else gpuarray.to_gpu(layer.bias)
            out = gpuarray.to_gpu(np.full(layer.shape.output_shape, np.nan, np.float32))
            kernel(x, w, bias, out=out)
            layer.check(out, case.id)
    print(f"{len(chosen)} variants ran")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
