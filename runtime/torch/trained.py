"""How often weights have been trained in this process."""

from __future__ import annotations


class _Trained:
    """Filter gradients that were computed: a step of an optimizer may have followed each, which PyTorch does not count
    where the optimizer is fused. Layers that prepared a weight see it by this where their own call was not recorded: in
    compiled and traced graphs, and of a weight that two layers have."""

    count = 0


trained = _Trained()
