"""Sizes past the limits of grids and of 32-bit indices."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import pytest

import warpconv
from tests import reference, settings
from tests.gpu import support
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

pytestmark = pytest.mark.gpu

KINDS = [("direct", {}), ("reuse", {"edges": "direct"}), ("reuse", {"edges": "predicated"}),
         ("reuse", {"rows": "reload", "exchange": "packed"})]
ids = ["direct", "reuse", "predicated", "reload"]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def check_rows(torch, shape: ConvShape, algorithm: str, values: dict, rows: list[int], image: int = 0) -> None:
    """Run a big layer of one channel with 3x3 filter and padding 1; no output may be missing, some rows are checked."""
    assert (shape.r, shape.s, shape.c, shape.k, shape.padding) == (3, 3, 1, 1, ((1, 1), (1, 1)))
    generator = torch.Generator(device="cuda").manual_seed(settings.seed)
    x = torch.empty(shape.input_shape, device="cuda").uniform_(-1, 1, generator=generator)
    w = settings.generator(2).standard_normal((1, 1, 3, 3)).astype(np.float32)
    kernel = warpconv.specialize(shape, device="cuda", algorithm=algorithm, settings=values)
    out = torch.full(shape.output_shape, float("nan"), device="cuda")
    kernel(x, torch.tensor(w, device="cuda"), out=out)
    torch.cuda.synchronize()
    for part in out.flatten().split(2**28):
        assert not bool(torch.isnan(part).any()), "outputs are missing"
    for row in rows:
        window = np.zeros((1, 1, 3, shape.w), np.float32)
        first, last = max(0, row - 1), min(shape.h, row + 2)
        window[0, 0, first - (row - 1):last - (row - 1)] = support.to_host(x[image, 0, first:last])
        strip = ConvShape(c=1, h=3, w=shape.w, k=1, r=3, s=3, padding=(0, 1))
        reference.expected(window, w, strip).check(support.to_host(out[image:image + 1, :, row:row + 1].contiguous()),
                                                   f"{algorithm} {values}, row {row}")
    del x, out
    torch.cuda.empty_cache()


@pytest.mark.parametrize("algorithm, values", KINDS, ids=ids)
def test_more_than_2_31_elements(torch, algorithm, values):
    side = 46400
    shape = ConvShape(c=1, h=side, w=side, k=1, r=3, s=3, padding=1)
    assert shape.h * shape.w > 2**31
    edge = 2**31 // side
    check_rows(torch, shape, algorithm, values, [0, 1, 20000, edge - 1, edge, edge + 1, side - 2, side - 1])


@pytest.mark.parametrize("algorithm, values", KINDS[:2], ids=ids[:2])
def test_more_than_2_31_elements_in_a_batch(torch, algorithm, values):
    shape = ConvShape(n=530, c=1, h=2050, w=2050, k=1, r=3, s=3, padding=1)
    assert shape.n * shape.h * shape.w > 2**31
    for image in (0, 511, 529):
        check_rows(torch, shape, algorithm, values, [0, 1000, 2049], image)


@functools.cache
def layer_of(shape: ConvShape) -> support.Layer:
    """The reference takes longer than all the kernels, so it is made once."""
    return support.Layer(shape)


@pytest.mark.parametrize("algorithm, values", KINDS, ids=ids)
@pytest.mark.parametrize("planes", [dict(n=70000, c=1, k=1), dict(n=35001, c=1, k=2), dict(n=1, c=70000, k=70000,
                                                                                          groups=70000)],
                         ids=["images", "images and filters", "groups"])
def test_70000_planes(algorithm, values, planes):
    shape = ConvShape(h=5, w=35, r=3, s=3, padding=1, **planes)
    kernel = warpconv.specialize(shape, device="cuda", algorithm=algorithm, settings={**values, "k_tile": 1})
    layer = layer_of(shape)
    out = np.full(shape.output_shape, np.nan, np.float32)
    layer.check(kernel(layer.x, layer.w, out=out), algorithm)


@pytest.mark.parametrize("algorithm, values", KINDS, ids=ids)
def test_tall_and_wide_images(torch, algorithm, values):
    long = 4_000_003
    shape = ConvShape(c=1, h=long, w=9, k=1, r=3, s=3, padding=1)
    check_rows(torch, shape, algorithm, values, [0, 1, 65535 * 4, 65535 * 56, 65536 * 56, long - 2, long - 1])
    small_blocks = {"block_size_y": 4} if algorithm == "direct" else {"sub_block_rows": 3, "warp_rows": 1}
    check_rows(torch, shape, algorithm, {**values, **small_blocks}, [0, 65535 * 3, 65536 * 3 + 1, long - 1])
    check_rows(torch, ConvShape(c=1, h=9, w=long, k=1, r=3, s=3, padding=1), algorithm, values, [0, 1, 8])


# layers of more than 2^31 elements; each algorithm runs the first that it takes
SEQUENCES = dict(n=16500, c=32, h=1, w=4096, k=32, groups=32, r=1, padding=(0, 1))
BIG = (dict(n=10800, c=64, h=56, w=56, k=64, dtype="float16", layout="NHWC"),
       dict(n=2100, c=1, h=1024, w=1024, k=1, dtype="uint8"),
       dict(n=21600, c=32, h=56, w=56, k=32, groups=32, dtype="float16", layout="NHWC"),
       dict(n=43000, c=64, h=28, w=28, k=64, groups=64, dtype="float16"),
       dict(n=14300, c=3, h=224, w=224, k=16, stride=2, dtype="float16", layout="NHWC"),
       dict(n=2, c=8, h=12000, w=12000, k=8, groups=8, dtype="float16"), dict(n=5400, c=8, h=224, w=224, k=8),
       dict(n=14300, c=3, h=224, w=224, k=8, r=7, s=7, stride=2, padding=3, layout="NHWC"),
       *(dict(SEQUENCES, dtype="float16", layout=layout) for layout in ("NCHW", "NHWC")), SEQUENCES)


def big_layer(algorithm: str) -> ConvShape:
    for layer in BIG:
        shape = ConvShape(**{"r": 3, "s": 3, "padding": 1, **layer})
        try:
            plan_layer(shape, algorithm=algorithm, arch=support.arch())
        except UnsupportedSpec:
            continue
        return shape
    raise AssertionError(f"{algorithm} takes none of these layers")


def drawn(torch, sizes, dtype, seed):
    """Small integers: sums are exact in every type, so that results can be compared bit by bit."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randint(0, 3, sizes, device="cuda", generator=generator, dtype=torch.uint8).to(getattr(torch, dtype))


# forms that those layers do not reach
NHWC = dict(n=10800, c=64, h=56, w=56, k=64, r=3, s=3, padding=1, layout="NHWC")
NCHW = {**NHWC, "layout": "NCHW"}
SINGLE = dict(c=64, k=64, r=1, s=1, dtype="float16")
FORMS = {
    "wgmma, a stride": ("wgmma", {**NHWC, "stride": 2, "dtype": "float16"}, {"form": "im2col"}, "float32"),
    "wgmma, a pass to NHWC": ("wgmma", {**NCHW, "dtype": "float16"}, {}, "float32"),
    "wgmma, planes": ("wgmma", dict(SINGLE, n=10800, h=56, w=56), {"form": "planes"}, "float32"),
    "wgmma, a box in NCHW": ("wgmma", {**NCHW, "dtype": "float16"}, {"form": "halo"}, "float32"),
    "wgmma, odd planes": ("wgmma", dict(SINGLE, n=86000, c=512, h=7, w=7), {"form": "im2col"}, "float32"),
    "wgmma, float32": ("wgmma", NHWC, {"form": "halo"}, "fp16x3"),
    "wgmma, float32, planes": ("wgmma", NCHW, {"form": "halo", "order": "planes"}, "fp16x3"),
    "wgmma, float32, 1x1": ("wgmma", {**NHWC, "r": 1, "s": 1, "padding": 0}, {"form": "im2col"}, "fp16x3"),
    "wgmma, tf32": ("wgmma", NHWC, {}, "tf32"),
    "sequence, NHWC": ("sequence", dict(SEQUENCES, s=3, layout="NHWC"), {}, "float32"),
    "mma, float32": ("mma", NHWC, {}, "tf32x3"),
    "mma, float32, NCHW": ("mma", NCHW, {}, "tf32x3"),
    "mma, 1x1 in NCHW": ("mma", dict(SINGLE, n=10800, h=56, w=56), {}, "float32"),
}


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_each_algorithm_past_2_31_elements(torch, algorithm):
    check_images(torch, big_layer(algorithm), algorithm)


@pytest.mark.parametrize("form", FORMS)
def test_forms_past_2_31_elements(torch, form):
    algorithm, layer, values, precision = FORMS[form]
    if algorithm == "wgmma" and not support.arch().startswith("sm_90"):
        pytest.skip(f"{support.arch()} has no wgmma")
    check_images(torch, ConvShape(**layer), algorithm, values, precision)


def check_images(torch, shape: ConvShape, algorithm: str, values: Mapping = {}, precision: str = "float32") -> None:
    """No output may be missing, and images on both sides of the limit are those of a float64 convolution."""
    stored, layout, each = shape.layout.stored, shape.layout.value, int(np.prod(shape.input_shape[1:]))
    assert shape.n * each > 2**31
    x = drawn(torch, stored(shape.input_shape), shape.dtype.value, 1)
    w = drawn(torch, shape.weight_shape, "float32" if shape.dtype.is_integer else shape.dtype.value, 2)
    if shape.dtype.is_integer:
        out = torch.full(stored(shape.output_shape), 255, device="cuda", dtype=torch.uint8)
    else:
        out = torch.full(stored(shape.output_shape), float("nan"), device="cuda", dtype=x.dtype)
    planned = plan_layer(shape, algorithm=algorithm, arch=support.arch(), settings=values, precision=precision)
    if planned.program.library_calls:
        support.needs_cublas()
    kernel = warpconv.specialize(shape, device="cuda", algorithm=algorithm, settings=values, precision=precision)
    assert kernel.spec.index_bits == 64
    kernel(x, w, out=out)
    torch.cuda.synchronize()
    for part in out.flatten().split(2**28):
        poison = part == 255 if shape.dtype.is_integer else torch.isnan(part)
        assert not bool(poison.any()), "outputs are missing"
    order = (0, 3, 1, 2) if layout == "NHWC" else (0, 1, 2, 3)
    middle = 2**31 // each
    for image in sorted({0, middle - 1, middle, min(middle + 1, shape.n - 1), shape.n - 1}):
        one = x[image:image + 1].permute(order).double()
        expected = torch.nn.functional.conv2d(one, w.double(), padding=[low for low, _ in shape.padding],
                                              stride=shape.stride, groups=shape.groups).to(out.dtype)
        assert torch.equal(out[image:image + 1].permute(order), expected), (algorithm, values, image)
    del x, out
    torch.cuda.empty_cache()
