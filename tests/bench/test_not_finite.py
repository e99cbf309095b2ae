"""``bench.not_finite``: its layers are those that the tensor cores have by default."""

from __future__ import annotations

from bench import not_finite
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.select import plan_layer


def test_every_layer_is_split_by_default():
    for sizes in not_finite.LAYERS:
        shape = not_finite.shape_of("NHWC", sizes)
        assert plan_layer(shape, arch="sm_90").spec.numerics in (Numerics.FP16X3, Numerics.TF32X3)
        assert plan_layer(shape, arch="sm_90", precision="ieee").spec.algorithm in ("implicit_gemm", "taps_ieee")
    for operation in ("data_gradient", "filter_gradient"):
        for sizes in not_finite.GRADIENTS:
            made = plan_layer(not_finite.shape_of("NHWC", sizes), arch="sm_90", operation=operation)
            assert made.spec.numerics in (Numerics.FP16X3, Numerics.TF32X3)
