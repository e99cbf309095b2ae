"""What a layer takes at least, however few threads there are: where a thread makes its outputs by itself, and until a
second launch works."""

from __future__ import annotations

from ..hardware import QUARTERS
from ..spec import KernelSpec

SECOND_LAUNCH = 1.6e6       # issue slots of a GPU until a second launch works, about 2 us (paper_layers, H200)
START_CYCLES, TAP_CYCLES = 2000, 250    # before the first product, and of each: most wait for a load


def lone_thread(spec: KernelSpec, reduction: float, pace: float) -> float:
    """Warp instructions, of an algorithm of that ``pace``, that could be issued while a thread makes one output; 0
    where the batch that is assumed fills the GPU (codegen/batch.py)."""
    if not spec.dtype.is_float or spec.channels == 1:
        return 0.0
    return spec.hardware.warps_of(QUARTERS) * (START_CYCLES + TAP_CYCLES * reduction) / pace
