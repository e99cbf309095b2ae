"""The GPU architecture that a kernel is generated for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import ArgumentError

_PATTERN = re.compile(r"(?:sm_|compute_)?(\d+)\.?(\d)([af]?)")


@dataclass(frozen=True, order=True)
class Arch:
    """Compute capability ``major.minor`` and, for targets such as sm_90a, the feature letter."""

    major: int
    minor: int
    feature: str = ""

    @classmethod
    def parse(cls, value: Arch | str, argument: str = "arch") -> Arch:
        """``"sm_90"``, ``"sm_90a"``, ``"9.0"`` or ``"90"`` as an Arch; ArgumentError otherwise."""
        if isinstance(value, cls):
            return value
        match = _PATTERN.fullmatch(str(value))
        if match is None:
            raise ArgumentError("not a GPU architecture", argument=argument, value=value,
                                hint="write it like sm_80, sm_90 or 9.0")
        return cls(int(match[1]), int(match[2]), match[3])

    def __str__(self) -> str:
        return f"sm_{self.major}{self.minor}{self.feature}"


    @property
    def resident_threads(self) -> int:
        """Threads that one multiprocessor holds at most."""
        return _RESIDENT_THREADS.get((self.major, self.minor), 2048)


# CUDA C programming guide, table of technical specifications per compute capability
_RESIDENT_THREADS = {(7, 5): 1024, (8, 6): 1536, (8, 7): 1536, (8, 9): 1536, (12, 0): 1536, (12, 1): 1536}
REGISTER_FILE = 65536   # 32-bit registers of one multiprocessor, 7.5 to 12.1

# The text for a machine without a GPU: today's data-centre chip, so that what is read and executed is what most run.
DEFAULT_ARCH = Arch(9, 0)

# Shared memory that a block can have, bytes: CUDA C programming guide, technical specifications per compute capability
_SHARED = {(7, 5): 64, (8, 0): 163, (8, 6): 99, (8, 7): 163, (8, 9): 99, (12, 0): 99, (12, 1): 99}
# Multiprocessors of the largest chip of an architecture: T4, A100, H200, B200 and their kin
_MULTIPROCESSORS = {(7, 5): 40, (8, 0): 108, (8, 6): 84, (8, 9): 142, (10, 0): 148, (12, 0): 188}


def shared_of(arch: Arch) -> int:
    """Bytes of shared memory that a block can have."""
    return _SHARED.get((arch.major, arch.minor), 227) * 1024


def multiprocessors(arch: Arch) -> int:
    """Multiprocessors that a launch which stays resident is made for."""
    return _MULTIPROCESSORS.get((arch.major, arch.minor), 132)
