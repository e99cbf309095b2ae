"""The plan values of ``phases_gemm``."""

from __future__ import annotations

import enum

from warpconv.codegen.classes import dataclass
from warpconv.codegen.options import DERIVED, only


class Form(enum.Enum):
    """What the rows of a product are."""

    APART = "apart"         # the channels of one phase of the stride, which has its own taps
    ROW = "row"             # the channels of the phases along W: pixels of a row are made side by side
    TOGETHER = "together"   # the channels of every phase


@dataclass(frozen=True)
class PhasesGemmOptions:
    """A block makes ``block_m`` channels, of one phase or of several, x ``block_n`` cells of the stride, ``block_k``
    products at a time; a thread ``thread_m`` x ``thread_n`` of them. ``stages`` tiles of products lie in shared memory;
    ``store_vector`` pixels are stored together in NCHW, in the forms that have them side by side."""

    form: Form = Form.TOGETHER
    block_m: int = 64
    block_n: int = 64
    block_k: int = 16
    thread_m: int = 8
    thread_n: int = 8
    stages: int = 2
    store_vector: int = only(1, form=(Form.ROW, Form.TOGETHER))
    min_blocks: int = DERIVED
