"""Gradients, volumes and lists of images of more than 2^31 elements.

Inputs are -1, 0 and 1, so that float32 holds every sum: what is compared has been rounded once, and has equal bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import warpconv
from tests.gpu import gradient_variants, support
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.registry import GRADIENTS
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Operation

pytestmark = pytest.mark.gpu

CHUNK = 2**27                  # elements that the reference takes at a time
LAYERS = {
    "depthwise": dict(n=21600, c=32, h=56, w=56, k=32, groups=32, dtype="float16", layout="NHWC"),
    "depthwise, NCHW": dict(n=21600, c=32, h=56, w=56, k=32, groups=32, dtype="float16"),
    "depthwise, a stride": dict(n=21600, c=32, h=56, w=56, k=32, groups=32, stride=2, dtype="bfloat16", layout="NHWC"),
    "depthwise, a stride, NCHW": dict(n=21600, c=32, h=56, w=56, k=32, groups=32, stride=2, dtype="float32"),
    "dense": dict(n=10800, c=64, h=56, w=56, k=64, dtype="float16", layout="NHWC"),
    "dense, NCHW": dict(n=10800, c=64, h=56, w=56, k=64, dtype="float16"),
    "dense, a stride": dict(n=10800, c=64, h=56, w=56, k=64, stride=2, dtype="float16", layout="NHWC"),
    "dense, float32": dict(n=10800, c=64, h=56, w=56, k=64, layout="NHWC"),
    "first": dict(n=14300, c=3, h=224, w=224, k=16, stride=2),
    "sequences": dict(n=16500, c=32, h=1, w=4096, k=32, groups=32, r=1, padding=(0, 1), dtype="float16"),
    "sequences, float32": dict(n=16500, c=32, h=1, w=4096, k=32, groups=32, r=1, s=9, padding=(0, 4)),
    "sequences, NHWC": dict(n=16500, c=32, h=1, w=4096, k=32, groups=32, r=1, padding=(0, 1), dtype="float16",
                            layout="NHWC"),
}
PRECISIONS = {"filter_gradient_tma": "tf32"}        # of algorithms that are for one alone
NAMES = [name for name, row in GRADIENTS.items() if row.operation not in (Operation.RAGGED, Operation.BIAS_GRADIENT)]


def layer_of(name: str) -> ConvShape:
    return ConvShape(**{"r": 3, "s": 3, "padding": 1, **LAYERS[name]})


def cases() -> Iterator[Any]:
    """Each layer by the planner's choice, and each algorithm on the first layer that it takes."""
    operations = (Operation.DATA_GRADIENT, Operation.FILTER_GRADIENT, Operation.BIAS_GRADIENT)
    yield from (pytest.param(operation, layer, "auto", id=f"{operation.value}, {layer}")
                for operation in operations for layer in LAYERS
                if operation is not Operation.BIAS_GRADIENT or LAYERS[layer].get("stride") is None or layer == "first")
    for name in NAMES:
        for layer in LAYERS:
            try:
                plan_layer(layer_of(layer), algorithm=name, arch="sm_90a", operation=GRADIENTS[name].operation,
                           precision=PRECISIONS.get(name, "float32"))
            except UnsupportedSpec:
                continue
            yield pytest.param(GRADIENTS[name].operation, layer, name, id=name)
            break
        else:
            raise AssertionError(f"{name} takes none of these layers")


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def nothing_kept(torch):
    yield
    torch.cuda.empty_cache()


def drawn(torch: Any, sizes: tuple[int, ...], dtype: str, seed: int) -> Any:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randint(-1, 2, sizes, device="cuda", generator=generator, dtype=torch.int8).to(getattr(torch, dtype))


def both_sides(count: int, each: int) -> list[int]:
    """Images around the one that holds element 2^31, the first and the last."""
    middle = 2**31 // each
    return sorted({0, middle - 1, middle, min(middle + 1, count - 1), count - 1})


def filter_gradient(torch: Any, x: Any, dy: Any, taps: tuple[int, ...], stride: int, padding: tuple[int, ...],
                    groups: int) -> Any:
    """Of arrays in NC... order, in float64: a product of matrices or a sum for each tap, of some images at a time."""
    n, k, *outputs = dy.shape
    c = x.shape[1]
    total = torch.zeros((k, c // groups, *taps), device="cuda", dtype=torch.float64)
    step = max(1, CHUNK // max(x[0].numel(), dy[0].numel()))
    sides = [side for one in reversed(padding) for side in (one, one)]
    for first in range(0, n, step):
        some = torch.nn.functional.pad(x[first:first + step].float(), sides)
        upper = dy[first:first + step].float()
        for tap in torch.cartesian_prod(*(torch.arange(size) for size in taps)).tolist():
            window = some[(slice(None), slice(None), *(slice(at, at + stride * (size - 1) + 1, stride)
                                                       for at, size in zip(tap, outputs)))]
            if groups == 1:
                found = upper.transpose(0, 1).reshape(k, -1) @ window.transpose(0, 1).reshape(c, -1).T
            else:
                assert groups == c == k
                found = (upper * window).sum(dim=(0, *range(2, 2 + len(taps))))[:, None]
            total[(slice(None), slice(None), *tap)] += found
    return total


@pytest.mark.parametrize("operation, layer, algorithm", list(cases()))
def test_gradients_past_2_31_elements(torch, operation, layer, algorithm):
    if algorithm in gradient_variants.HOPPERS and not support.arch().startswith("sm_90"):
        pytest.skip(f"{algorithm} is for sm_90a, not {support.arch()}")
    shape = layer_of(layer)
    padding = shape.padding[0][0], shape.padding[1][0]
    stored, dtype = shape.layout.stored, shape.dtype.value
    order = (0, 3, 1, 2) if shape.layout.value == "NHWC" else (0, 1, 2, 3)
    each = shape.c * shape.h * shape.w
    assert shape.n * each > 2**31
    options = dict(stride=shape.stride, padding=padding, groups=shape.groups, layout=shape.layout.value,
                   algorithm=algorithm, precision=PRECISIONS.get(algorithm, "float32"))
    dy = drawn(torch, stored(shape.output_shape), dtype, 1)
    if operation is Operation.BIAS_GRADIENT:
        assert dy.numel() > 2**31
        got = warpconv.conv2d_bias(dy, layout=shape.layout.value)
        expected = sum(part.permute(order).sum(dim=(0, 2, 3), dtype=torch.float64) for part in dy.split(500))
        assert torch.equal(got, expected.to(dy.dtype))
    elif operation is Operation.DATA_GRADIENT:
        w = drawn(torch, shape.weight_shape, dtype, 2)
        out = torch.full(stored(shape.input_shape), float("nan"), device="cuda", dtype=dy.dtype)
        warpconv.conv2d_input(out.shape, w, dy, out=out, **options)
        for part in out.flatten().split(2**28):
            assert not bool(torch.isnan(part).any()), "outputs are missing"
        for image in both_sides(shape.n, each):
            expected = torch.nn.grad.conv2d_input((1, *shape.input_shape[1:]), w.double(),
                                                  dy[image:image + 1].permute(order).double(), stride=shape.stride,
                                                  padding=padding, groups=shape.groups).to(out.dtype)
            assert torch.equal(out[image:image + 1].permute(order), expected), image
    else:
        x = drawn(torch, stored(shape.input_shape), dtype, 2)
        got = warpconv.conv2d_weight(x, shape.weight_shape, dy, **options)
        expected = filter_gradient(torch, x.permute(order), dy.permute(order), (shape.r, shape.s), shape.stride[0],
                                   padding, shape.groups)
        assert torch.equal(got, expected.to(x.dtype))


@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
def test_volumes_past_2_31_elements(torch, layout):
    n, c, sizes = 130, 8, (32, 256, 256)
    spatial = (n, c, *sizes) if layout == "NCDHW" else (n, *sizes, c)
    order = (0, 1, 2, 3, 4) if layout == "NCDHW" else (0, 4, 1, 2, 3)
    x = drawn(torch, spatial, "float16", 1)
    assert x.numel() > 2**31
    w = drawn(torch, (c, 1, 3, 3, 3), "float16", 2)
    options = dict(padding=1, groups=c, layout=layout)
    for forward in (True, False):
        out = torch.full(spatial, float("nan"), device="cuda", dtype=x.dtype)
        if forward:
            warpconv.conv3d(x, w, out=out, **options)
        else:
            warpconv.conv3d_input(out.shape, w, x, out=out, **options)
        for part in out.flatten().split(2**28):
            assert not bool(torch.isnan(part).any()), "outputs are missing"
        taps = w.double() if forward else w.double().flip(2, 3, 4)
        for image in both_sides(n, x[0].numel()):
            expected = torch.nn.functional.conv3d(x[image:image + 1].permute(order).double(), taps, padding=1, groups=c)
            assert torch.equal(out[image:image + 1].permute(order), expected.to(out.dtype)), (forward, image)
        del out
    dy = drawn(torch, spatial, "float16", 3)
    got = warpconv.conv3d_weight(x, w.shape, dy, **options)
    expected = filter_gradient(torch, x.permute(order), dy.permute(order), (3, 3, 3), 1, (1, 1, 1), c)
    assert torch.equal(got, expected.to(x.dtype))


def test_lists_of_images_past_2_31_elements(torch):
    images = [drawn(torch, (h, w), "float32", h) for h, w in zip(range(990, 1062), range(1100, 1028, -1))] * 29
    assert sum(image.numel() for image in images) > 2**31
    made = warpconv.correlate(images, WEIGHTS, mode="mirror")
    alone = [warpconv.correlate(image, WEIGHTS, mode="mirror") for image in images[:72]]
    for number, image in enumerate(made):
        assert torch.equal(image, alone[number % 72]), number
    assert made[-1].data_ptr() != made[71].data_ptr()


def test_sequences_past_2_31_elements(torch):
    """One sequence of a few channels, and one of many."""
    for layout, sizes, channels in (("NLC", (2, 540_000, 2048), 2048), ("NCL", (2, 3, 360_000_000), 3)):
        x = drawn(torch, sizes, "float16", 1)
        assert x.numel() > 2**31
        w = drawn(torch, (channels, 1, 4), "float16", 2)
        got = warpconv.conv1d(x, w, padding="causal", groups=channels, layout=layout)
        for part in ((0, slice(0, 5000)), (1, slice(-5000, None))):
            line, whole = (array[part].T if layout == "NLC" else array[part[0], :, part[1]] for array in (x, got))
            expected = torch.nn.functional.conv1d(line[None].double(), w.double(), groups=channels)[0].to(got.dtype)
            assert torch.equal(whole[:, 3:], expected), (layout, part)
        del x, got


WEIGHTS = np.array([[1, 2, 0], [-1, 0, 1], [0, 3, -2]], np.float32)
