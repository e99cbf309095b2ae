"""warpconv for PyTorch: layers, functions that PyTorch records, and a model's layers converted in one line.

``import warpconv.torch`` needs PyTorch (the extra ``torch``); ``warpconv.conv2d`` itself records gradients of tensors
without it.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401 - its absence has a message of its own
except ImportError as _error:
    raise ImportError("warpconv.torch needs PyTorch: pip install 'warpconv[torch]'") from _error

from warpconv.runtime.call.volume import conv3d
from warpconv.runtime.torch import operators as _operators  # noqa: F401 - torch.ops.warpconv

from .convert import Conversion, Row, convert, restore
from .modules import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Conversion",
           "Row", "conv3d", "convert", "restore"]
