"""resnet50 as an ONNX file with drawn weights, as exporters write it: nothing of PyTorch is needed to make it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

STAGES = (3, 4, 6, 3)


class _Writer:
    """Nodes and initialisers in the making."""

    def __init__(self, onnx: Any, seed: int):
        self.onnx, self.rng = onnx, np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []

    def node(self, op: str, inputs: list[str], name: str, **attributes: Any) -> str:
        label = f"/{name.replace('.', '/')}"
        self.nodes.append(self.onnx.helper.make_node(op, inputs, [name], name=label, **attributes))
        return name

    def tensor(self, name: str, value: np.ndarray) -> str:
        self.tensors.append(self.onnx.numpy_helper.from_array(value.astype(np.float32), name))
        return name

    def conv(self, x: str, name: str, c: int, k: int, taps: int, stride: int) -> str:
        """A convolution and its normalisation."""
        weight = self.tensor(f"{name}.weight", self.rng.standard_normal((k, c, taps, taps), np.float32)
                             / np.float32(c * taps * taps) ** 0.5)
        y = self.node("Conv", [x, weight], f"{name}.conv", kernel_shape=[taps] * 2, strides=[stride] * 2,
                      pads=[taps // 2] * 4)
        numbers = [self.tensor(f"{name}.{part}", self.rng.random(k) + 0.5 if part in ("scale", "variance")
                               else self.rng.standard_normal(k)) for part in ("scale", "shift", "mean", "variance")]
        return self.node("BatchNormalization", [y, *numbers], f"{name}.norm", epsilon=1e-5)


def write_resnet50(path: Path, *, stages: tuple[int, ...] = STAGES, seed: int = 0) -> Path:
    """Write the network, of so many blocks a stage, whose batch is left open as ``batch``. Raises ImportError without
    onnx."""
    import onnx
    writer = _Writer(onnx, seed)
    x = writer.node("Relu", [writer.conv("input", "stem", 3, 64, 7, 2)], "stem.relu")
    x = writer.node("MaxPool", [x], "stem.pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    c = 64
    for stage, blocks in enumerate(stages):
        inner, out = 64 << stage, 256 << stage
        for block in range(blocks):
            name, stride = f"layer{stage + 1}.{block}", 2 if block == 0 and stage else 1
            y = writer.node("Relu", [writer.conv(x, f"{name}.conv1", c, inner, 1, 1)], f"{name}.relu1")
            y = writer.node("Relu", [writer.conv(y, f"{name}.conv2", inner, inner, 3, stride)], f"{name}.relu2")
            y = writer.conv(y, f"{name}.conv3", inner, out, 1, 1)
            past = writer.conv(x, f"{name}.downsample", c, out, 1, stride) if block == 0 else x
            x = writer.node("Relu", [writer.node("Add", [y, past], f"{name}.add")], f"{name}.relu3")
            c = out
    x = writer.node("Flatten", [writer.node("GlobalAveragePool", [x], "pool")], "flat")
    head = writer.tensor("head.weight", writer.rng.standard_normal((1000, c)))
    writer.node("Gemm", [x, head], "output", transB=1)
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    ends = [helper.make_tensor_value_info(name, kind, ["batch", *sizes]) for name, sizes in (
        ("input", [3, 224, 224]), ("output", [1000]))]
    graph = helper.make_graph(writer.nodes, "resnet50", ends[:1], ends[1:], writer.tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path
