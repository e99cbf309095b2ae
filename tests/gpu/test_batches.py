"""Lists of images of differing sizes on a GPU: each library's arrays, streams, outputs, graphs, every border."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
from tests import settings
from tests.runtime.ndimage.test_batches import CALLS, MODES, SIZES, drawn, same

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", params=["cupy", "torch", "numpy"])
def library(request):
    """How host arrays become a library's, and come back."""
    if request.param == "numpy":
        return np.asarray, np.asarray
    module = pytest.importorskip(request.param)
    if request.param == "cupy":
        return module.asarray, module.asnumpy
    return (lambda array: module.from_numpy(np.ascontiguousarray(array)).cuda()), lambda tensor: tensor.cpu().numpy()


def on_cpu(name, images, positional, options):
    return getattr(warpconv, name)(images, *positional, device="cpu", **options)


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("mode", MODES)
def test_calls(library, mode, dtype):
    there, back = library
    images = drawn(dtype, (*SIZES, (511, 260), (64, 512)))
    for name, positional, options in CALLS:
        options = {"mode": mode, **options}
        made = getattr(warpconv, name)(list(map(there, images)), *positional, device="cuda", **options)
        same(list(map(back, made)), on_cpu(name, images, positional, options), dtype)


def test_outputs_and_own_filters(library):
    there, back = library
    images = drawn("float32")
    filters = [settings.generator(i).standard_normal((1 + i % 3, 3)) for i in range(len(images))]
    outputs = [there(np.full(image.shape, np.nan, np.float32)) for image in images]
    made = warpconv.correlate(list(map(there, images)), filters, outputs, device="cuda")
    assert all(each is output for each, output in zip(made, outputs))
    same(list(map(back, outputs)), on_cpu("correlate", images, (filters,), {}), "float32")


def test_gaps_and_turned_axes(library):
    there, back = library
    whole = settings.generator(5).standard_normal((300, 200, 3), np.float32)
    kept = there(whole)
    views = [lambda a: a[10:80, 5:30], lambda a: a[::2, 100:101], lambda a: a[250:, 60:190]]
    made = warpconv.gaussian_filter([view(kept) for view in views], (2, 1, 0), device="cuda")
    same(list(map(back, made)), on_cpu("gaussian_filter", [view(whole) for view in views], ((2, 1, 0),), {}), "float32")


def test_a_stream_of_ones_own():
    torch = pytest.importorskip("torch")
    images = drawn("float32") * 40
    expected = on_cpu("sobel", images, (), {})
    stream = torch.cuda.Stream()
    for _ in range(5):      # memory is reused at once, in the stream's order
        tensors = [torch.from_numpy(image).cuda() for image in images]
        made = warpconv.sobel(tensors, stream=stream)
        del tensors
        torch.cuda.current_stream().wait_stream(stream)
        same([each.cpu().numpy() for each in made], expected, "float32")


def test_a_captured_batch_is_done_image_by_image():
    torch = pytest.importorskip("torch")
    images = [torch.from_numpy(image).cuda() for image in drawn("float32")]
    outputs = [torch.full_like(image, float("nan")) for image in images]
    for image, output in zip(images, outputs):      # loaded, and prepared
        warpconv.sobel(image, output=output)
    graph = torch.cuda.CUDAGraph()
    for output in outputs:
        output.fill_(float("nan"))
    with torch.cuda.graph(graph):
        warpconv.sobel(images, output=outputs)
    graph.replay()
    torch.cuda.synchronize()
    expected = on_cpu("sobel", [image.cpu().numpy() for image in images], (), {})
    same([each.cpu().numpy() for each in outputs], expected, "float32")
