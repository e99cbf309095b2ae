"""A model's convolutions from a pack, inside ONNX Runtime: a custom operator in Python, nothing compiled.

    pip install onnx onnxruntime onnxruntime-extensions
    python docs/examples/model_in_onnxruntime.py model.onnx --dim batch=1

Each layer's nodes become one node of the domain ai.onnx.contrib, which onnxruntime-extensions hands to a Python
function; that function calls the pack. Such operators get NumPy arrays in host memory, copies of the session's: it is a
way to check a pack inside ONNX Runtime, not a way to speed (docs/models.md says what there is).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnxruntime_extensions import PyCustomOpDef, get_library_path, onnx_op

import warpconv

PACKS: dict[str, warpconv.Pack] = {}
DOMAIN = "ai.onnx.contrib"
TEXT = PyCustomOpDef.dt_string
ELEMENTS = {"float32": PyCustomOpDef.dt_float, "uint8": PyCustomOpDef.dt_uint8, "int8": PyCustomOpDef.dt_int8}
TYPES = [("float32", "float32"), *((x, y) for x in ("uint8", "int8") for y in ("uint8", "int8"))]


def register(x_type: str, y_type: str) -> None:
    """An operator for layers from these elements to those: such operators have fixed types."""
    @onnx_op(op_type=f"WarpConv_{x_type}_{y_type}", inputs=[ELEMENTS[x_type]], outputs=[ELEMENTS[y_type]],
             attrs={"pack": TEXT, "layer": TEXT})
    def warp_conv(x: np.ndarray, pack: str, layer: str) -> np.ndarray:
        return PACKS[pack].conv(layer, device="cpu")(x)


for one in TYPES:
    register(*one)


@onnx_op(op_type="WarpConvAdd_float32_float32", inputs=[ELEMENTS["float32"]] * 2, outputs=[ELEMENTS["float32"]],
         attrs={"pack": TEXT, "layer": TEXT})
def warp_conv_add(x: np.ndarray, residual: np.ndarray, pack: str, layer: str) -> np.ndarray:
    """A layer of a pack that adds a residual."""
    return PACKS[pack].conv(layer, device="cpu")(x, residual=residual)


def exchanged(model: Any, layers: Any, pack: str) -> Any:
    """The model with a node of ours for each layer, where the layer's output was made."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    ours = {layer.output: layer for layer in layers}
    gone = {name for layer in layers for name in layer.inner}
    nodes = []
    for node in model.graph.node:
        layer = ours.get(node.output[0])
        if layer is not None:
            op = "WarpConvAdd" if layer.residual else "WarpConv"
            op += f"_{layer.shape.dtype.value}_{layer.shape.y_dtype.value}"
            inputs = [name for name in (layer.input, layer.residual) if name]
            nodes.append(helper.make_node(op, inputs, [layer.output], name=layer.node, domain=DOMAIN, pack=pack,
                                          layer=layer.name))
        elif node.output[0] not in gone:
            nodes.append(node)
    del made.graph.node[:], made.graph.value_info[:]
    made.graph.node.extend(nodes)
    made.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return made


def compare(path: Path, dims: dict[str, int], folder: Path) -> tuple[float, int]:
    """The largest difference from ONNX Runtime's own results, of the largest, and how many layers the pack served."""
    layers = warpconv.read_model(path, dims)
    warpconv.build_pack(layers, folder / "model.zip", ["sm_90"], weights=True)
    PACKS["model"] = warpconv.open_pack(folder / "model.zip")
    model = onnx.load(path)
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(get_library_path())
    options.log_severity_level = 3          # else it tells of every filter that is the pack's now
    theirs, ours = (onnxruntime.InferenceSession(one.SerializeToString(), options, providers=["CPUExecutionProvider"])
                    for one in (model, exchanged(model, layers, "model")))
    rng = np.random.default_rng(0)
    feeds = {value.name: rng.standard_normal([size if isinstance(size, int) else dims[size] for size in value.shape],
                                             dtype=np.float32) for value in theirs.get_inputs()}
    worst = 0.0
    for one, other in zip(ours.run(None, feeds), theirs.run(None, feeds)):
        worst = max(worst, float(np.abs(one - other).max() / np.abs(other).max()))
    return worst, len(layers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE")
    given = parser.parse_args()
    dims = {name: int(size) for name, _, size in (text.partition("=") for text in given.dim)}
    with tempfile.TemporaryDirectory() as folder:
        worst, served = compare(given.model, dims, Path(folder))
    print(f"{served} convolutions from the pack; largest difference {worst:.2g} of the largest output")


if __name__ == "__main__":
    main()
