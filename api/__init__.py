"""warpconv: CUDA convolution kernels generated for a layer, to emit, read, build ahead, or run at the call.

Names are imported when they are first used, so ``import warpconv`` needs no GPU, driver, CUDA toolkit or compiler.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

from warpconv.codegen.version import VERSION as __version__      # noqa: F401 (part of __all__)

IMPORTED = time.time_ns()       # before any planner

_NAMES = {
    "ConvShape": "codegen.shape", "KernelSpec": "codegen.spec", "Epilogue": "codegen.epilogue",
    **{name: "codegen.dtypes" for name in ("DType", "Layout", "Cast")}, "Border": "codegen.border",
    "Arch": "codegen.hardware", "Hardware": "codegen.hardware",
    "Numerics": "codegen.numerics", "Precision": "codegen.numerics",
    "KernelPlan": "codegen.plan", "KernelSource": "codegen.render", "render": "codegen.render",
    "Request": "codegen.request",
    **{name: "codegen.select" for name in ("select", "explain", "plan_layer")},
    **{name: "codegen.resolution" for name in ("resolve", "Resolution", "Selection", "Candidate", "Tuning", "plan")},
    "NamedLayer": "runtime.layers", "read_layers": "runtime.layers",
    "read_model": "runtime.models.source", "layers_of": "runtime.models.torch",
    **{name: "runtime.models.model" for name in ("Model", "ModelLayer")},
    "conv2d": "runtime.call.conv", "specialize": "runtime.call.conv",
    **{name: "runtime.call.gradients" for name in ("conv2d_input", "conv2d_weight", "conv2d_bias")},
    **{name: "runtime.call.transposed" for name in ("conv_transpose2d", "conv_transpose3d")},
    **{name: "runtime.call.line" for name in ("conv1d", "conv1d_input", "conv1d_weight", "conv_transpose1d")},
    **{name: "runtime.call.volume" for name in ("conv3d", "conv3d_input", "conv3d_weight")},
    "Operation": "codegen.spec",
    "specialize_all": "runtime.call.many",
    "Kernel": "runtime.call.kernel", "Filter": "runtime.call.filter",
    **{name: "runtime.ndimage.correlate" for name in ("correlate", "convolve", "correlate1d", "convolve1d")},
    **{name: "runtime.ndimage.filters" for name in (
        "gaussian_filter", "gaussian_filter1d", "uniform_filter", "uniform_filter1d")},
    **{name: "runtime.ndimage.derivatives" for name in (
        "sobel", "prewitt", "laplace", "gaussian_laplace", "gaussian_gradient_magnitude")},
    **{name: "runtime.ndimage.generic" for name in ("generic_laplace", "generic_gradient_magnitude")},
    "graph": "runtime.devices.cuda.graph", "Graph": "runtime.devices.cuda.graph",
    "tune": "runtime.tuning", "tuning_table": "runtime.tuning.choice",
    "open_pack": "runtime.pack.pack", "Pack": "runtime.pack.pack", "build_pack": "runtime.pack.pack",
    "PackConv": "runtime.pack.conv",
    **{name: "codegen.errors" for name in (
        "WarpconvError", "ShapeError", "ArgumentError", "ArgumentTypeError", "UnsupportedSpec", "PlannerError",
        "CompileError", "ToolNotFound", "DeviceError", "KernelNotBuilt", "PackError", "FileError", "KernelFault")},
}
__all__ = sorted([*_NAMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'warpconv' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"warpconv.{_NAMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
