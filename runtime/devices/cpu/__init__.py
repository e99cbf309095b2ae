"""The CPU device: the text that nvcc compiles, compiled by the machine's C++ compiler and run with warp semantics."""

from .maps import TensorMap
from .objects import build_key_fields
from .program import CpuProgram
from .report import Buffer, BufferCounts, LaunchReport, Mode
from .toolchain import Toolchain, find_toolchain

__all__ = ["Buffer", "BufferCounts", "CpuProgram", "LaunchReport", "Mode", "TensorMap", "Toolchain",
           "build_key_fields", "find_toolchain"]
