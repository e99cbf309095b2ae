"""Small ONNX models, what onnx's reference computes of them in float64, and a pack of one without a CUDA compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.runtime.pack.pack_tools import FakeCompiler
from warpconv.runtime import env
from warpconv.runtime.build import compilers
from warpconv.runtime.build.compilers import CompilerKind
from warpconv.runtime.pack.pack import build_pack, open_pack

OPSET = 20
RNG = np.random.default_rng(5)


def drawn(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Elements around zero; of integer types small ones over their range."""
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return RNG.integers(info.min, info.max, shape, dtype, endpoint=True)
    return RNG.standard_normal(shape).astype(dtype)


def model(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], constants: dict[str, np.ndarray],
          dtype: int = TensorProto.FLOAT, out: int | None = None, opset: int = OPSET, **more: Any) -> Any:
    """A ModelProto; ``inputs`` are sizes by name, or (type, sizes)."""
    given = [helper.make_tensor_value_info(name, *((dtype, sizes) if isinstance(sizes, list) else sizes))
             for name, sizes in inputs.items()]
    made = [helper.make_tensor_value_info(name, out or dtype, None) for name in outputs]
    graph = helper.make_graph(nodes, "g", given, made, [numpy_helper.from_array(value, name)
                                                       for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9, **more)


def saved(made: Any, folder: Path, name: str = "model.onnx") -> str:
    path = folder / name
    path.write_bytes(made.SerializeToString())
    return str(path)


def conv(inputs: list[str], output: str = "y", op: str = "Conv", **attributes: Any) -> Any:
    return helper.make_node(op, inputs, [output], name=f"/{op}/{output}", **attributes)


def evaluated(made: Any, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The model's outputs by onnx's reference, every float32 of it a float64."""
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    for tensor in copy.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for value in (*copy.graph.input, *copy.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    wide = {name: value.astype(np.float64) if value.dtype == np.float32 else value for name, value in feeds.items()}
    return ReferenceEvaluator(copy).run(None, wide)


def pack_of(layers: Any, path: Path, monkeypatch: Any, **options: Any) -> Any:
    """The opened pack of layers whose cubins nobody made; its texts run on the CPU device. Kernels of the CPU device
    stay in the tests' own cache, the false cubins do not."""
    with monkeypatch.context() as patch, env.scope(cache_dir=str(path.parent / "false-cubins")):
        patch.setattr(compilers, "compile_source", FakeCompiler())
        patch.setattr(compilers, "choose", lambda kind=None, settings=None: CompilerKind.NVRTC)
        report = build_pack(layers, path, options.pop("archs", ["sm_90"]), **{"weights": True, **options})
    assert report.ok
    return open_pack(path)
