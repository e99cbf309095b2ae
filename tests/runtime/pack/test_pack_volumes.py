"""Packs with layers of volumes: written, found again, and called on the CPU device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import warpconv
from tests import volumes
from tests.runtime.pack.pack_tools import LAYERS, use_fake_compiler
from tests.runtime.pack.test_pack import compiler, folder  # noqa: F401
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, KernelNotBuilt, ShapeError
from warpconv.codegen.spec import Epilogue, Operation
from warpconv.runtime.call import conv
from warpconv.runtime.layers import NamedLayer
from warpconv.runtime.pack.pack import Pack, build_pack, open_pack

pytestmark = pytest.mark.filterwarnings("ignore:warpconv runs on the CPU device:RuntimeWarning")
BIASED = (Epilogue.BIAS,)


@pytest.fixture(scope="module", params=["NCHW", "NHWC"])
def volume(request):
    return volumes.drawn(11, n=2, c=4, k=6, groups=2, d=7, h=9, w=8, t=3, r=2, s=3, stride=(1, 2, 1),
                         dilation=(1, 1, 1), padding=((1, 1), (0, 1), (2, 0)), dtype=DType.FLOAT32,
                         layout=request.param)


@pytest.fixture(scope="module")
def pack(tmp_path_factory, volume):
    """Built once, its kernels compiled once."""
    path = tmp_path_factory.mktemp("pack")
    layers = (NamedLayer(name="volume", shape=volume.shape, epilogue=BIASED), LAYERS[0],
              NamedLayer(name="back", shape=volume.shape, operation=Operation.DATA_GRADIENT))
    with pytest.MonkeyPatch.context() as patch:
        conv.clear()
        use_fake_compiler(patch, path)
        report = build_pack(layers, path / "mixed", ["sm_90"])
        assert [row.status for row in report.rows] == ["built"] * 3
        yield open_pack(path / "mixed")


def test_a_layer_is_called(pack, volume):
    layer = pack.conv("volume", device="cpu")
    assert layer.shape == volume.shape and not layer.transposed
    nhwc = volume.shape.layout.value == "NHWC"
    x = volume.stored(volume.x)
    for order in (("NDHWC", "NHWC") if nhwc else ("NCDHW", "NCHW")):
        made = layer(x, volume.w, volume.b, layout=order)
        volume.check_forward(np.moveaxis(made, -1, 1) if nhwc else made)
    out = np.full_like(made, np.nan)
    assert layer(x, layer.prepare(volume.w), volume.b, out=out, layout=order) is out and np.array_equal(out, made)
    assert np.array_equal(layer(x[:1], volume.w, volume.b, layout=order), made[:1])     # another batch
    back = pack.conv("back", device="cpu")
    dx = back(volume.stored(volume.dy), volume.w, layout=order)
    volume.check_gradient(np.moveaxis(dx, -1, 1) if nhwc else dx, "dx")


def test_other_sizes(pack, volume):
    more = replace(volume.shape, d=9, h=11, w=12)
    rng = np.random.default_rng(2)
    other = volumes.Volume(more, *(rng.standard_normal(sizes).astype(np.float32) for sizes in (
        more.input_shape, more.weight_shape, (more.k,), more.output_shape)))
    order = other.options["layout"]
    made = pack.conv("volume", device="cpu")(other.stored(other.x), other.w, other.b, layout=order)
    other.check_forward(np.moveaxis(made, -1, 1) if order == "NDHWC" else made)
    dx = pack.conv("back", device="cpu")(other.stored(other.dy), other.w, layout=order)
    other.check_gradient(np.moveaxis(dx, -1, 1) if order == "NDHWC" else dx, "dx")


def test_mistakes(pack, volume):
    layer, x = pack.conv("volume", device="cpu"), volume.stored(volume.x)
    order = volume.options["layout"]
    for bad in (x[0], x[0, 0]):
        with pytest.raises((ArgumentTypeError, ShapeError), match="5"):
            layer(bad, volume.w, volume.b, layout=order)
    with pytest.raises(ArgumentError, match="layout"):
        layer(x, volume.w, volume.b, layout="NCDWH")
    with pytest.raises(ArgumentError, match="no weight"):
        layer(x, layout=order)


def test_a_pack_serves_conv3d(pack, volume, monkeypatch):
    """conv3d's layer is found by what it is; one that was not built is an error that says how."""
    served, find = [], Pack.find
    monkeypatch.setattr(Pack, "find", lambda *args, **named: served.append(find(*args, **named)) or served[-1])
    monkeypatch.setenv("WARPCONV_PACK", str(pack.path))
    conv.clear()
    x = volume.stored(volume.x)
    made = warpconv.conv3d(x, volume.w, volume.b, **volume.options, device="cpu")
    volume.check_forward(np.moveaxis(made, -1, 1) if volume.shape.layout.value == "NHWC" else made)
    (kernel,) = served
    assert kernel.spec.is_volume and kernel.spec.epilogue == BIASED
    with pytest.raises(KernelNotBuilt, match="--filter 6,3,2,3"):
        pack.specialize(replace(volume.shape, padding=0, padding_mode="zeros", padding_value=0.0), device="cpu")


def test_what_a_pack_of_images_says_is_as_it_was(folder):
    """No field of volumes is stored with layers that are none: older versions read the pack."""
    text = (folder / "manifest.json").read_text()
    assert '"d":' not in text and '"t":' not in text
