"""The example that runs a pack's layers inside ONNX Runtime, by a custom operator in Python."""

import importlib.util
import sys
from pathlib import Path

import pytest
from onnx import helper

from tests.runtime.models.make import conv, drawn, model, saved

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "model_in_onnxruntime.py"


@pytest.mark.long
def test_the_example_runs_a_model_inside_onnx_runtime(tmp_path):
    for package in ("onnxruntime", "onnxruntime_extensions"):
        pytest.importorskip(package, reason=f"{package} is not installed: no custom operator in Python")
    node = helper.make_node
    nodes = [conv(["x", "w", "b"], "a", pads=[1] * 4), node("Relu", ["a"], ["r"]),
             conv(["r", "v"], "c", pads=[1] * 4, group=4), node("Add", ["c", "r"], ["s"]), node("Relu", ["s"], ["t"]),
             node("GlobalAveragePool", ["t"], ["y"])]
    path = saved(model(nodes, {"x": ["batch", 3, 12, 10]}, ["y"], {"w": drawn(4, 3, 3, 3), "b": drawn(4),
                                                                  "v": drawn(4, 1, 3, 3)}), tmp_path)
    spec = importlib.util.spec_from_file_location("model_in_onnxruntime", EXAMPLE)
    script = importlib.util.module_from_spec(spec)
    sys.modules["model_in_onnxruntime"] = script
    spec.loader.exec_module(script)
    worst, served = script.compare(Path(path), {"batch": 2}, tmp_path)
    assert served == 2 and worst < 1e-5
