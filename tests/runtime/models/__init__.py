"""Models: ONNX files as layers, folded, served from packs. What onnx itself computes is what they are compared with."""

import pytest

pytest.importorskip("onnx", reason="onnx (the extra test) is not installed: models cannot be read")
