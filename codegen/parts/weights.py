"""Where a kernel's weights are while it computes: what several planners offer."""

from __future__ import annotations

import enum


class Weights(enum.Enum):
    REGISTERS = "registers"
    SHARED = "shared"        # staged in shared memory, read again for every row


class BankWeights(enum.Enum):
    REGISTERS = "registers"  # a register per weight (where pixels are multiplied by fours: per four)
    SHARED = "shared"        # staged in shared memory as they are multiplied, read again for every row
    CONSTANT = "constant"    # constant memory: operands of the FMA; a single float32 filter only
