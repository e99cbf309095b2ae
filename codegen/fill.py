"""A rule by which a small grid fills the GPU; without it a grid is what the plan's tiles make of a layer."""

from __future__ import annotations

from .classes import dataclass



@dataclass(frozen=True, kw_only=True)
class Fill:
    """How the blocks along one axis adapt to a whole grid that is small: enough, or few enough, for full rounds of
    the ``blocks`` that a GPU holds at a time, with at least ``least`` units left to each; grids of over ``rounds``
    rounds are left alone."""

    blocks: int
    least: int
    rounds: int = 6

    def count(self, units: int, planned: int, others: int) -> int:
        """Blocks for ``units``, ``planned`` without this rule, where the other axes have ``others``."""
        rounds = planned * others / self.blocks
        if rounds >= self.rounds:
            return planned
        most = max(1, units // self.least)
        return max(1, min(most, int(max(1, round(rounds)) * self.blocks / others)))
