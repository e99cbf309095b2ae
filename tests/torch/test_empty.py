"""Batches of no images, as detectors without a find have them: outputs and gradients as PyTorch's."""

import numpy as np
import pytest
import torch

import warpconv
import warpconv.torch

LAYERS = [("Conv1d", (3, 4, 3), {}, (0, 3, 9)), ("Conv2d", (3, 4, 3), {}, (0, 3, 8, 9)),
          ("Conv2d", (4, 4, 3), {"groups": 4, "padding": 1, "padding_mode": "reflect", "stride": 2}, (0, 4, 8, 8)),
          ("Conv3d", (3, 4, 3), {}, (0, 3, 5, 6, 7)), ("ConvTranspose1d", (3, 4, 2), {"stride": 2}, (0, 3, 5)),
          ("ConvTranspose2d", (3, 4, 2), {"stride": 2}, (0, 3, 5, 6))]


@pytest.mark.parametrize("name, sizes, options, shape", LAYERS, ids=[f"{one[0]}-{len(one[2])}" for one in LAYERS])
def test_layers(name, sizes, options, shape):
    theirs, ours = (getattr(module, name)(*sizes, **options) for module in (torch.nn, warpconv.torch))
    x = torch.zeros(shape, requires_grad=True)
    y = ours(x)
    assert y.shape == theirs(x).shape and y.dtype == torch.float32
    y.sum().backward()
    assert x.grad.shape == shape
    assert all(value.grad is not None and not value.grad.any() for value in ours.parameters())
    with torch.no_grad():
        assert ours.eval()(x).shape == y.shape == ours(x).shape


def test_functions():
    w = torch.zeros(4, 3, 3, 3)
    assert warpconv.conv2d(torch.zeros(0, 3, 8, 9), w).shape == (0, 4, 6, 7)
    assert warpconv.conv2d(torch.zeros(0, 8, 9, 3), w, layout="NHWC", out_dtype="float32").shape == (0, 6, 7, 4)
    assert warpconv.conv2d_input((0, 3, 8, 9), w, torch.zeros(0, 4, 6, 7)).shape == (0, 3, 8, 9)
    found = warpconv.conv2d_weight(torch.zeros(0, 3, 8, 9), (4, 3, 3, 3), torch.zeros(0, 4, 6, 7))
    np.testing.assert_array_equal(found, np.zeros((4, 3, 3, 3)))


def test_what_no_layer_has_is_refused_all_the_same():
    with pytest.raises(warpconv.ShapeError, match="weight has 3 channels a group"):
        warpconv.conv2d(torch.zeros(0, 5, 8, 9), torch.zeros(4, 3, 3, 3))
    with pytest.raises(warpconv.ShapeError):
        warpconv.conv2d(torch.zeros(0, 3, 2, 9), torch.zeros(4, 3, 3, 3))
