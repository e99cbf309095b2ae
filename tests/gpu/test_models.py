"""A pack's layers by their nodes on a GPU: filters and biases brought there once, on the caller's stream."""

from __future__ import annotations

import numpy as np
import pytest

from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Operation, parse_epilogue
from warpconv.runtime.accuracy.reference import compare
from warpconv.runtime.devices.cuda import contexts
from warpconv.runtime.models.model import Arrays, ModelLayer
from warpconv.runtime.pack.pack import build_pack, open_pack

pytestmark = pytest.mark.gpu

SHAPES = {"dense": {"c": 16, "k": 64, "r": 3, "s": 3, "padding": 1},
          "depthwise": {"c": 8, "k": 8, "groups": 8, "r": 5, "s": 5, "padding": 2}}


def layers(dtype):
    """One of each kind, and a transposed one, with drawn filters and biases of a model that is not there."""
    rng, made = np.random.default_rng(2), []
    for name, sizes in SHAPES.items():
        shape = ConvShape(n=2, h=20, w=24, dtype=dtype, **sizes)
        arrays = Arrays(*(rng.standard_normal(sizes).astype(dtype) for sizes in (shape.weight_shape, (shape.k,))))
        made.append(ModelLayer(name=name, node=f"/{name}", shape=shape, read=lambda arrays=arrays: arrays,
                               epilogue=parse_epilogue(["bias", "residual", "relu"], takes_bias=True)))
    shape = ConvShape(n=2, c=6, h=21, w=19, k=8, r=3, s=3, stride=2, padding=1, dtype=dtype)
    arrays = Arrays(rng.standard_normal(shape.weight_shape).astype(dtype), rng.standard_normal(shape.c).astype(dtype))
    made.append(ModelLayer(name="transposed", node="/transposed", op="ConvTranspose", shape=shape,
                           epilogue=parse_epilogue(["bias"], takes_bias=True), operation=Operation.DATA_GRADIENT,
                           read=lambda: arrays))
    return made


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_layers_of_a_pack(dtype, tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch, whose arrays are on the GPU, is not installed")
    wanted = layers(dtype)
    report = build_pack(wanted, tmp_path / "pack", [contexts.arch(0)], weights=True)
    assert report.ok, report.rows
    pack, rng = open_pack(tmp_path / "pack"), np.random.default_rng(3)
    stream = torch.cuda.Stream()
    for layer in wanted:
        conv, held, shape = pack.conv(layer.node), layer.arrays(), layer.shape
        if conv.transposed:
            x = rng.standard_normal(shape.output_shape).astype(dtype)
            exact = torch.nn.functional.conv_transpose2d(
                *(torch.from_numpy(array).cuda().double() for array in (x, held.weight, held.bias)), stride=2,
                padding=1).cpu().numpy()
            atol = (1e-5 if dtype == "float32" else 5e-3) * np.abs(exact).max()
            conv = pack.conv(layer.node, device="cuda")         # the filter is wherever the input is, call by call
            for given in (torch.from_numpy(x).cuda(), x, torch.from_numpy(x).cuda()):
                y = torch.as_tensor(conv(given))
                assert tuple(y.shape) == exact.shape
                np.testing.assert_allclose(y.cpu().double().numpy(), exact, rtol=0, atol=atol)
            continue
        x = rng.standard_normal(shape.input_shape).astype(dtype)
        r = rng.standard_normal(shape.output_shape).astype(dtype)
        on = [torch.from_numpy(array).cuda() for array in (x, r)]
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            results = [conv(on[0], residual=on[1]) for _ in range(2)]
        stream.synchronize()
        for y in (*results, torch.from_numpy(conv(x, residual=r))):      # NumPy's arrays go there and back
            assert compare(y.cpu().numpy(), x, held.weight, shape, bias=held.bias, residual=r,
                           epilogue=layer.epilogue).within
