"""What PyTorch sees: operators, gradients, layers, conversion. On host tensors, by the CPU device; tests/gpu/
test_torch.py has what needs a GPU."""

import pytest

WHY = "PyTorch is not installed: pip install torch==2.13.0 (its CPU build)"
torch = pytest.importorskip("torch", reason=WHY)
