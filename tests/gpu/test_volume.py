"""conv3d, its gradients and SciPy's filters of three axes on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
from tests.volumes import TYPES, drawn
from warpconv.codegen.border import Border

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("number", range(40))
def test_drawn_layers_and_gradients(number):
    layer = drawn(number)
    nchw, more = layer.shape.layout.value == "NCHW", {"padding_value": layer.shape.padding_value, "device": "cuda"}
    turned = (lambda a: a) if nchw else (lambda a: np.moveaxis(a, -1, 1))
    layer.check_forward(turned(warpconv.conv3d(layer.stored(layer.x), layer.w, layer.b, **layer.options, **more)))
    dx = warpconv.conv3d_input(layer.stored(layer.x).shape, layer.w, layer.stored(layer.dy), **layer.options,
                               device="cuda")
    layer.check_gradient(turned(dx), "dx")
    arguments = layer.stored(layer.x), layer.w.shape, layer.stored(layer.dy)
    dw = warpconv.conv3d_weight(*arguments, **layer.options, **more)
    layer.check_gradient(dw, "dw")
    assert dw.tobytes() == warpconv.conv3d_weight(*arguments, **layer.options, **more).tobytes()


@pytest.mark.parametrize("border", Border)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("taps, width", [(3, 132), (5, 131)])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_layers_that_march(layout, taps, width, dtype, border):
    layer = drawn(taps, n=2, c=6, k=6, groups=6, d=35, h=40, w=width, t=taps, r=taps, s=taps, stride=(1, 1, 1),
                  dilation=(1, 1, 1), padding=((taps // 2,) * 2,) * 3, dtype=dtype, layout=layout, padding_mode=border)
    x, dy = layer.stored(layer.x), layer.stored(layer.dy)
    more = {**layer.options, "device": "cuda", "padding_value": layer.shape.padding_value}
    made = warpconv.conv3d(x, layer.w, layer.b, **more)
    layer.check_forward(made if layout == "NCHW" else np.moveaxis(made, -1, 1))
    dw = warpconv.conv3d_weight(x, layer.w.shape, dy, **more)
    layer.check_gradient(dw, "dw")
    assert dw.tobytes() == warpconv.conv3d_weight(x, layer.w.shape, dy, **more).tobytes()


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_arrays_stay_on_the_gpu_on_their_librarys_stream(library):
    module = pytest.importorskip(library, reason="the arrays stay on the GPU")
    layer = drawn(3, n=2, c=4, k=4, groups=4, d=9, h=20, w=40, t=3, r=3, s=3, stride=(1, 1, 1), dilation=(1, 1, 1),
                  padding=((1, 1),) * 3, dtype=TYPES[0], layout="NCHW", padding_mode=Border.ZEROS)
    take = (lambda a: module.from_numpy(a).cuda()) if library == "torch" else module.asarray
    x, w, b = map(take, (layer.x, layer.w, layer.b))
    queue = module.cuda.Stream() if library == "torch" else module.cuda.Stream(non_blocking=True)
    with module.cuda.stream(queue) if library == "torch" else queue:
        made = warpconv.conv3d(x, w, b, **layer.options)
        again = warpconv.conv3d(x, w, b, **layer.options)
    queue.synchronize()
    layer.check_forward(made.cpu().numpy() if library == "torch" else module.asnumpy(made))
    assert bool((made == again).all())


@pytest.mark.parametrize("call", [
    lambda of, x, **more: of.correlate(x, WEIGHTS, mode="mirror", **more),
    lambda of, x, **more: of.gaussian_filter(x, 2, **more), lambda of, x, **more: of.uniform_filter(x, 5, **more)])
def test_filters_are_scipys(call):
    ndimage = pytest.importorskip("scipy.ndimage", reason="SciPy is not installed")
    x = np.random.default_rng(1).standard_normal((60, 70, 90)).astype(np.float32)
    wanted = call(ndimage, x.astype(np.float64))
    np.testing.assert_allclose(call(warpconv, x, device="cuda"), wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


WEIGHTS = np.random.default_rng(0).standard_normal((3, 2, 5))
