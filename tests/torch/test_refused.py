"""What calls that PyTorch records refuse: by the argument's name, before anything is launched, as calls without
gradients do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import warpconv
import warpconv.torch as layers
from warpconv import ArgumentTypeError, ShapeError

pytestmark = pytest.mark.filterwarnings("ignore:warpconv runs on the CPU device:RuntimeWarning")


def arrays():
    return {"x": torch.randn(2, 4, 8, 8, requires_grad=True), "w": torch.randn(6, 4, 3, 3),
            "g": torch.randn(2, 6, 6, 6, requires_grad=True), "volume": torch.randn(2, 6, 3, 3, 3, requires_grad=True),
            "line": torch.randn(1, 2, 9, requires_grad=True), "meta": torch.randn(6, 4, 3, 3, device="meta")}


@pytest.mark.parametrize("call, error, argument", [
    (lambda x, w, g, **_: warpconv.conv2d_input((4, 8, 8), w, g), ShapeError, "input_size"),
    (lambda x, w, g, **_: warpconv.conv2d_input(None, w, g), ShapeError, "input_size"),
    (lambda x, w, g, **_: warpconv.conv2d_input((2, 4, 8, 8.5), w, g), ArgumentTypeError, "input_size"),
    (lambda x, w, g, **_: warpconv.conv2d_weight(x, None, g), ShapeError, "weight_size"),
    (lambda x, w, g, **_: warpconv.conv2d_weight(x, (6, 4, 3, True), g), ArgumentTypeError, "weight_size"),
    (lambda w, volume, **_: warpconv.conv3d_input("abcde", w[:, :, None], volume), ArgumentTypeError, "input_size"),
    (lambda x, volume, **_: warpconv.conv3d_weight(x[:, :, None], (6, 4, 3, 3), volume), ShapeError, "weight_size"),
    (lambda x, **_: warpconv.conv2d(x, None), ArgumentTypeError, "weight"),
    (lambda x, **_: warpconv.conv_transpose2d(x, None), ArgumentTypeError, "weight"),
    (lambda x, w, **_: warpconv.conv_transpose2d(x, w[:4], output_padding="a"), ArgumentTypeError, "output_padding"),
    (lambda x, w, **_: warpconv.conv_transpose2d(x, w[:4], stride=2, output_padding=0.5), ArgumentTypeError,
     "output_padding"),
    (lambda x, w, **_: warpconv.conv_transpose2d(x, w[:4], stride=2, output_padding=-1), ShapeError, "output_padding"),
    (lambda x, w, **_: warpconv.conv_transpose2d(x, w[:4], groups=3), ShapeError, "groups"),
    (lambda x, w, **_: warpconv.conv_transpose2d(x, w[:4], groups=1.5), ArgumentTypeError, "groups"),
    (lambda x, w, **_: warpconv.conv_transpose2d(x, w[:4], torch.randn(3)), ShapeError, "bias"),
    (lambda x, w, **_: warpconv.conv_transpose2d(x, w[:4], torch.randn(4).half()), ArgumentTypeError, "bias"),
    (lambda x, w, **_: warpconv.conv2d(x, w, padding_value="a"), ArgumentTypeError, "padding_value"),
    (lambda x, w, **_: warpconv.conv2d(x[..., :1], w), ShapeError, "input"),
    (lambda x, **_: layers.Conv2d(4, 6, 3)(x.detach()[..., :1]), ShapeError, "input"),
    (lambda x, **_: layers.Conv2d(4, 6, 3)(x[None]), ShapeError, "input"),
    (lambda line, **_: warpconv.conv1d(line, torch.randn(3, 2, 2), padding="causal", state=3), ArgumentTypeError,
     "state"),
    (lambda line, **_: warpconv.conv1d(line, torch.randn(3, 2, 2), padding="causal", state=np.zeros((1, 2, 1), "f")),
     ArgumentTypeError, "state"),
    (lambda line, **_: warpconv.conv1d(line.detach(), torch.randn(3, 2, 2), padding="causal",
                                       state=np.zeros((1, 2, 1), "f")), ArgumentTypeError, "state"),
    # one without memory beside those that have some: there would be a result of nothing
    (lambda x, meta, **_: warpconv.conv2d(x, meta), ArgumentTypeError, "weight"),
    (lambda x, w, meta, **_: warpconv.conv2d(x, w, residual=meta), ArgumentTypeError, "residual"),
    (lambda x, w, meta, **_: warpconv.conv2d_weight(x, w.shape, meta), ArgumentTypeError, "grad_output"),
    (lambda x, meta, **_: warpconv.conv_transpose2d(x, meta[:4]), ArgumentTypeError, "weight"),
    (lambda x, **_: layers.Conv2d(4, 6, 3, device="meta")(x), ArgumentTypeError, "weight"),
    (lambda meta, **_: layers.ConvTranspose2d(4, 6, 3)(meta), ArgumentTypeError, "weight")])
def test_it_is_refused_by_name(call, error, argument):
    with pytest.raises(error) as caught:
        call(**arrays())
    assert caught.value.argument == argument


def test_a_layer_without_memory_is_refused_where_one_of_its_kind_was_called():
    x = arrays()["x"]
    layers.Conv2d(4, 6, 3)(x)
    for layer in (layers.Conv2d(4, 6, 3, device="meta"), layers.Conv2d(4, 6, 3)):
        layer.bias = torch.nn.Parameter(torch.empty(6, device="meta"))
        with pytest.raises(ArgumentTypeError) as caught:
            layer(x)
        assert caught.value.argument == ("weight" if layer.weight.is_meta else "bias")


def test_tensors_without_memory_alone_give_one():
    made = warpconv.conv2d(torch.randn(2, 4, 8, 8, device="meta"), arrays()["meta"])
    assert made.is_meta and made.shape == (2, 6, 6, 6)


def test_the_bias_of_no_images_is_zeros():
    assert torch.equal(warpconv.conv2d_bias(torch.randn(0, 3, 4, 4)), torch.zeros(3))


def test_sizes_are_numpys_integers_too():
    x, w, g = (arrays()[name] for name in ("x", "w", "g"))
    sizes = tuple(np.int64(size) for size in x.shape)
    assert torch.equal(warpconv.conv2d_input(sizes, w, g), warpconv.conv2d_input(x.shape, w, g))
    assert torch.equal(warpconv.conv2d_weight(x, np.array(w.shape), g), warpconv.conv2d_weight(x, w.shape, g))
