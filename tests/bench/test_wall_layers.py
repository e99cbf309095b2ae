"""The layers of memory_wall and their targets."""

from collections import Counter

from bench.studies.wall_layers import layers


def test_every_line_of_the_table_is_there_once():
    found = list(layers())
    assert Counter(w.group for w in found) == {"planes": 30, "depthwise": 72, "large filters": 12, "small planes": 4}
    assert len({w.key for w in found}) == len(found)


def test_targets_are_the_tables():
    by_key = {w.key: w for w in layers()}
    plane = by_key["planes/1x1x8192/7x7/float32/NCHW"]
    assert plane.must("copy") == ("of_floor", 0.72) and plane.least_speedups == {"NPP": 7.0}
    assert plane.moved == 2 * 4 * 8192 ** 2
    half = by_key["planes/1x1x4096/3x3/bfloat16/NCHW"]
    assert half.must("copy") == ("of_copy", 0.85) and half.least_speedups == {}
    deep = by_key["depthwise/32x128x112/5x5/float16/NHWC"]
    assert (deep.must("copy"), deep.must("gemm")) == (("of_floor", 0.80), ("of_floor", 0.65))
    assert by_key["depthwise/64x768x7/3x3/float32/NCHW"].must("copy") is None
    assert by_key["depthwise/32x128x112/3x3/float32/NHWC"].least_speedups == {}
    assert by_key["large filters/32x128x56/31x31/float16/NCHW"].least_speedups == {"cuDNN": 3.0}
