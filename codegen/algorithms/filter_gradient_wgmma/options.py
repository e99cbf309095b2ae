"""The plan values of ``filter_gradient_wgmma``."""

from __future__ import annotations

import enum

from warpconv.codegen.classes import dataclass
from warpconv.codegen.options import only


class Form(enum.Enum):
    """How pixels come to shared memory."""

    CHANNELS = "channels"   # the channels of a pixel side by side: NHWC, or what launches before leave
    PLANES = "planes"       # of 1x1 layers in NCHW, from where they lie: the pixels of a channel side by side


@dataclass(frozen=True)
class FilterGradientWgmmaOptions:
    """A block makes ``filters`` filters x ``columns`` columns (a tap of a channel each), ``pixels`` pixels at a time,
    in the form ``planes`` as many as have 128 bytes; ``stages`` such tiles lie in shared memory. ``splits`` blocks
    share the pixels of the batch, whose sums a second launch adds in a fixed order; of 1x1 filters one block alone
    writes the gradient itself."""

    form: Form = Form.CHANNELS
    filters: int = 128
    columns: int = 256
    pixels: int = only(64, form=Form.CHANNELS)
    stages: int = 4
    splits: int = 1
