"""What the documents measured, on their machines, beside what a study measures here. Data, with its origin."""

from __future__ import annotations

from typing import Any

IM2WIN_ORIGIN = (
    "the logs of the im2win paper's public CUDA repository (log/log_float_GPU_TFLOPS.txt and _mem.txt, the paper's "
    "figures 2 to 4): RTX 3090, CUDA 11.1, PyTorch 1.10; the transform is outside its timer; its times fit its TFLOP/s "
    "at batch 64")
PAPER_ORIGIN = "Lu, Zhang and Wang, CLUSTER 2020, multi-channel convolution: RTX 2080 Ti, CUDA 10.2, batch 128"

# Mean speedups that the documents claim.
IM2WIN_CLAIMS = {"im2col": 3.5, "cudnn": 1.1, "direct": (5.0, 155.0)}
MEMORY_CLAIMS = {"im2col": 0.231, "cudnn": 0.328}                   # part of the memory that im2win saves
PAPER_CLAIMS = {1: {"im2col": 19.5, "cudnn": 1.3}, 3: {"im2col": 25.6, "cudnn": 1.1}}     # by input channels

_COLUMNS = ("direct", "im2win_basic", "im2col", "cudnn", "im2win", "without prefetch", "without vector_loads",
            "without micro_kernel")
_MEMORY = ("direct", "im2win", "im2col", "cudnn")

# TFLOP/s in the order of _COLUMNS, then MB in the order of _MEMORY
_LOGGED = """
conv1   0.665 0.443  3.02  4.46  8.02  7.42  6.97 2.89   805  879 1229 1241
conv2   0.665 0.419  3.05  5.58  7.69  7.32  6.15 2.85   807  883 1235 1389
conv3   0.717 0.550  3.12  4.63  3.76  3.74  3.58 1.73  1003 1293 1473 1627
conv4   0.278 0.174  6.85  9.98 13.03 11.46 11.72 7.42  1340 1347 1863 2543
conv5   0.520 0.433  3.79 19.27 14.50 10.19  8.46 4.93   829  945 1111 1135
conv6   0.184 0.124  3.83 10.12  9.98  7.27  7.71 4.79   803  869 1075 1115
conv7   0.261 0.211  0.74  1.65  1.30  1.17  1.24 1.08  1581 1871 2629 2783
conv8   0.500 0.336  6.25  9.47 12.03 11.56 11.18 5.65  1347 2011 2503 3719
conv9   0.560 0.538  2.05  6.42  7.30  5.63  4.53 4.16   867  951 1189 1503
conv10  0.560 0.545  3.33 11.60 11.98  8.45  8.27 5.79   819  959 1117 1235
conv11  0.200 0.154  1.68 15.57 12.39 11.27 10.15 8.26   761  803 1079 1203
conv12  0.049 0.049  0.91  7.09  7.64  6.62  4.18 3.29   789  835 1067 1295
"""


def _read(text: str) -> dict[str, tuple[float, ...]]:
    lines = [line.split() for line in text.strip().splitlines()]
    return {name: tuple(map(float, values)) for name, *values in lines}


TFLOPS: dict[str, dict[str, float]] = {name: dict(zip(_COLUMNS, values)) for name, values in _read(_LOGGED).items()}
MEMORY_MB: dict[str, dict[str, float]] = {name: dict(zip(_MEMORY, values[len(_COLUMNS):]))
                                          for name, values in _read(_LOGGED).items()}


def of_layer(name: str) -> dict[str, Any]:
    """A layer's logged TFLOP/s; empty of a layer that the logs do not have (they have layer 4 with 32 channels)."""
    return dict(TFLOPS.get(name, {}))
