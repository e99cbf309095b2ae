"""Every algorithm x variant once, for compute-sanitizer: ``compute-sanitizer ... python -m tests.gpu.sanitize``.

Arrays are exactly as large as their elements, so that an access one past the end is seen. ``--racecheck`` runs the
kernels with shared memory alone.
"""

from __future__ import annotations

import sys

from tests import cases, reference
from tests.gpu import support

SIZES = ((2, 37, 71), (2, 36, 72), (2, 28, 28), (2, 14, 14), (2, 7, 7))     # the first that a plan takes


def main(arguments: list[str]) -> int:
    from warpconv.runtime.cuda import contexts
    contexts.driver()
    chosen = [case for case in cases.variants()
              if "--racecheck" not in arguments or dict(case.values).get("weights") == "shared"]
    with support.primary_context():
        from pycuda import gpuarray
        support.build_ahead(chosen)
        for case in chosen:
            (plan, (shape, *_)), *_ = case.plans(tuple(case.shape(*size) for size in SIZES), support.arch())
            kernel = support.kernel_of(plan, shape)
            layer = support.Layer(shape, seed=case.number, epilogue=case.epilogue, numerics=case.numerics)
            x, w = gpuarray.to_gpu(layer.x), gpuarray.to_gpu(layer.w)
            bias = None if layer.bias is None else gpuarray.to_gpu(layer.bias)
            out = gpuarray.to_gpu(reference.poisoned(shape))
            kernel(x, w, bias, out=out)
            layer.check(out, case.id)
    print(f"{len(chosen)} variants ran")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
