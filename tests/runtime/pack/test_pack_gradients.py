"""Packs of gradients and transposed layers: other sizes than those they were built for, and single pixels."""

from dataclasses import replace

import numpy as np
import pytest

import warpconv
from tests.runtime.models.make import conv, drawn, model, pack_of, saved
from tests.runtime.pack.pack_tools import use_fake_compiler
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.request import Request
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Operation
from warpconv.runtime.call import conv as calls
from warpconv.runtime.call import kernels
from warpconv.runtime.layers import NamedLayer
from warpconv.runtime.models.source import read_model
from warpconv.runtime.pack.pack import build_pack, find_in_packs

LAYER = ConvShape(n=2, c=32, h=7, w=7, k=48, r=1, s=1)


@pytest.fixture
def packed(monkeypatch, tmp_path):
    """A pack of the layer and its gradients, the one that calls look in."""
    calls.clear()
    use_fake_compiler(monkeypatch, tmp_path)
    build_pack([NamedLayer(name=operation.value, shape=LAYER, operation=operation) for operation in Operation
                if operation is not Operation.BIAS_GRADIENT], tmp_path / "pack", ["sm_90"])
    monkeypatch.setenv("WARPCONV_PACK", str(tmp_path / "pack"))
    yield
    calls.clear()


@pytest.mark.parametrize("size", [1, 7, 12])
def test_gradients_come_from_a_pack(packed, size):
    """Single pixels too, for which a kernel in NHWC would be planned. The filter's gradient of one pixel is exact
    products, which the pack's kernel for many in parts has not."""
    shape = replace(LAYER, n=3, h=size, w=size)
    served = [operation for operation in (Operation.DATA_GRADIENT, Operation.FILTER_GRADIENT)
              if find_in_packs(Request.of(shape, operation=operation), device=None) is not None]
    assert served == [Operation.DATA_GRADIENT, Operation.FILTER_GRADIENT][:1 if size == 1 else 2]
    x, w, dy = drawn(*shape.input_shape), drawn(*shape.weight_shape), drawn(*shape.output_shape)
    back = warpconv.conv2d_input(x.shape, w, dy, device="cpu")
    exact = np.einsum("nkhw,kc->nchw", dy.astype(float), w[:, :, 0, 0].astype(float))
    np.testing.assert_allclose(back, exact, rtol=0, atol=1e-5 * np.abs(exact).max())
    exact = np.einsum("nkhw,nchw->kc", dy.astype(float), x.astype(float))
    np.testing.assert_allclose(warpconv.conv2d_weight(x, w.shape, dy, device="cpu")[:, :, 0, 0], exact, rtol=0,
                               atol=1e-5 * np.abs(exact).max())


def test_a_transposed_layer_built_for_single_pixels_takes_images(tmp_path, monkeypatch):
    w = drawn(5, 6, 1, 1)
    proto = model([conv(["x", "w"], op="ConvTranspose")], {"x": [1, 5, 1, 1]}, ["y"], {"w": w})
    served = pack_of(read_model(saved(proto, tmp_path)), tmp_path / "pack", monkeypatch).conv("/ConvTranspose/y",
                                                                                              device="cpu")
    for size in ((1, 1), (3, 4)):
        x = drawn(2, 5, *size)
        exact = np.einsum("nchw,ck->nkhw", x.astype(float), w[:, :, 0, 0].astype(float))
        np.testing.assert_allclose(served(x), exact, rtol=0, atol=1e-5)


def test_a_kernel_for_sizes_that_nobody_told_takes_any():
    """Planes begin at 16 bytes: without a layer the form that asks for no sizes is planned."""
    layer = replace(LAYER, c=256, k=128, h=56, w=56, dtype=DType.FLOAT16)
    told = plan_layer(layer, algorithm="filter_gradient_wgmma", operation="filter_gradient")
    untold = warpconv.plan(told.spec)
    assert told.options.form.value == "planes" and untold.options.form.value == "channels"
    small = replace(layer, h=7, w=7)
    assert untold.program.refusal(small) is None and told.program.refusal(small) is not None


def test_the_portable_kernel_beside_hoppers_is_of_the_same_operation():
    layer = NamedLayer(name="one", shape=replace(LAYER, c=256, k=128, h=56, w=56, dtype=DType.FLOAT16,
                                                 layout=Layout.NHWC), operation=Operation.FILTER_GRADIENT)
    made = layer.plan("sm_90")
    twin = layer.portable_plan("sm_90", made)
    assert str(made.spec.arch) == "sm_90a" and str(twin.spec.arch) == "sm_90"
    assert twin.spec.operation is Operation.FILTER_GRADIENT


@pytest.mark.parametrize("precision", ["float32", "tf32", "tf32x3"])
@pytest.mark.parametrize("operation", ["forward", "data_gradient", "filter_gradient"])
@pytest.mark.parametrize("layer", [
    replace(LAYER, h=12, w=12), replace(LAYER, h=12, w=12, r=3, s=3, padding=1, stride=2)], ids=str)
def test_arrays_at_odd_addresses_have_a_kernel(layer, operation, precision):
    ask = kernels.asked(layer, None, operation=operation, precision=precision)
    found = kernels.anywhere(kernels.kernel_of(ask), ask)
    assert all(argument.admits(4) for argument in found.program.arguments if argument.is_pointer)
