"""docs/examples/digits.py in a short form: the same loss curve, and the same accuracy, with converted layers."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

pytest.importorskip("sklearn", reason="scikit-learn, which has the digits, is not installed")
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "digits.py"


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.filterwarnings("ignore:warpconv runs on the CPU device:RuntimeWarning")
def test_digits_are_learnt_as_with_pytorchs_layers(device):
    spec = importlib.util.spec_from_file_location("digits", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    (their_losses, theirs), (our_losses, ours) = example.both(4, 600, device)
    apart = [abs(a - b) for a, b in zip(their_losses, our_losses)]
    assert max(apart[:8]) < 1e-3, apart[:8]         # roundings grow from step to step
    last = [sum(losses[-8:]) / 8 for losses in (their_losses, our_losses)]
    assert last[0] < 0.7 * their_losses[0] and abs(last[0] - last[1]) < 0.1, last
    assert abs(theirs - ours) <= 0.05 and torch.is_grad_enabled()
