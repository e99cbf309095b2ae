"""What has no operator, SciPy's calls, kernels and packs, inside a function that torch.compile reads: the graph is
broken there, and the call is as it is outside."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import warpconv
import warpconv.opencv
import warpconv.skimage

pytestmark = pytest.mark.filterwarnings("ignore:warpconv runs on the CPU device:RuntimeWarning")
TAPS = np.array([[1, 2, 0], [-1, 3, 1], [0.5, 0, 2]], np.float32)
CALLS = {
    "correlate": lambda x: warpconv.correlate(x, TAPS),
    "a tensor as weights": lambda x: warpconv.correlate1d(x, torch.tensor([1.0, 2.0, -1.0])),
    "gaussian_filter": lambda x: warpconv.gaussian_filter(x, 1.5),
    "output": lambda x: warpconv.uniform_filter(x, 3, output=torch.empty_like(x)),
    "gaussian_laplace": lambda x: warpconv.gaussian_laplace(x, 1.0),
    "images": lambda x: warpconv.gaussian_filter([x, x[3:]], 1.0)[1],
    "skimage": lambda x: warpconv.skimage.gaussian(x, 1.0),
    "skimage's sobel": lambda x: warpconv.skimage.sobel(x),
    "opencv": lambda x: warpconv.opencv.GaussianBlur(x, (3, 3), 1.0),
}


def same(step, x, **options):
    """Called again and again, and for another size."""
    torch._dynamo.reset()
    compiled = torch.compile(step, backend="eager", **options)
    for image in (x, x, x[1:]):
        made, wanted = compiled(image), step(image)
        assert torch.equal(made, wanted) and not torch.equal(made, image)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.thin(3)
def test_filters(name):
    same(lambda x: CALLS[name](x * 2) + 1, torch.randn(20, 24))


def test_arguments_that_differ():
    """More of them than the compiler makes of one function."""
    torch._dynamo.reset()
    x = torch.randn(12, 14)

    @torch.compile(backend="eager")
    def step(x, sigma):
        return warpconv.gaussian_filter(x * 2, sigma) + 1

    for number in range(12):
        sigma = 0.5 + number / 8
        assert torch.equal(step(x, sigma), warpconv.gaussian_filter(x * 2, sigma) + 1)
        x = torch.randn(12 + number, 14)


@pytest.mark.parametrize("dynamic", [None, True], ids=["", "dynamic"])
def test_kernels(dynamic):
    kernel = warpconv.specialize(warpconv.ConvShape(c=4, k=4, h=9, w=12, r=3, s=3, groups=4), device="cpu")
    x, w = torch.randn(2, 4, 9, 12), torch.randn(4, 1, 3, 3)
    prepared = kernel.prepare(w)
    same(lambda x: kernel(x * 2, w) + 1, x, dynamic=dynamic)
    same(lambda x: kernel(x * 2, prepared, out=torch.empty(x.shape[0], 4, 7, 10)) + 1, x, dynamic=dynamic)
    made = torch.compile(lambda x: kernel(x, kernel.prepare(w)), backend="eager")(x)
    torch.testing.assert_close(made, torch.nn.functional.conv2d(x, w, groups=4), rtol=1e-5, atol=1e-5)


def test_one_graph_is_refused_in_words():
    kernel = warpconv.specialize(warpconv.ConvShape(c=1, k=1, h=9, w=12, r=3, s=3), device="cpu")
    w = torch.randn(1, 1, 3, 3)
    for step in (lambda x: warpconv.gaussian_filter(x, 1.0), lambda x: kernel(x, w)):
        torch._dynamo.reset()
        with pytest.raises(torch._dynamo.exc.Unsupported, match="warpconv's kernels.* are not part of a graph"):
            torch.compile(step, backend="eager", fullgraph=True)(torch.randn(1, 1, 9, 12))
