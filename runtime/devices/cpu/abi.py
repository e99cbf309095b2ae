"""The structures of device/abi.h, field by field, for ctypes."""

from __future__ import annotations

import ctypes
from dataclasses import fields

from warpconv.codegen.errors import KernelFault

from .report import BufferCounts

WRITABLE, INITIALISED = 1, 2
COUNT_NAMES = tuple(f.name for f in fields(BufferCounts))
LAUNCH_COUNTS = ("shuffles", "barriers", "shared_requests", "shared_wavefronts", "constant_requests")

# enum wcpu_fault_kind: 0 is no fault
FAULT_KINDS = ("", *KernelFault.KINDS)


class CBuffer(ctypes.Structure):
    """struct wcpu_buffer"""

    _fields_ = [("name", ctypes.c_char_p), ("begin", ctypes.c_uint64), ("end", ctypes.c_uint64),
                ("unit", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("writers", ctypes.c_void_p),
                ("readers", ctypes.c_void_p), ("counts", ctypes.c_uint64 * len(COUNT_NAMES))]


class CStacks(ctypes.Structure):
    """struct wcpu_stacks"""

    _fields_ = [("lock", ctypes.c_uint32), ("count", ctypes.c_uint32), ("mappings", ctypes.c_void_p * 512)]


class CLaunch(ctypes.Structure):
    """struct wcpu_launch"""

    _fields_ = [("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("shared_bytes", ctypes.c_uint64),
                ("workers", ctypes.c_uint32), ("order", ctypes.c_uint32), ("buffer_count", ctypes.c_uint64),
                ("buffers", ctypes.POINTER(CBuffer)), ("arguments", ctypes.POINTER(ctypes.c_void_p)),
                *((name, ctypes.c_uint64) for name in LAUNCH_COUNTS),
                ("stacks", ctypes.POINTER(CStacks)),
                ("fault_kind", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("fault", ctypes.c_char * 512)]


class CKernel(ctypes.Structure):
    """struct wcpu_kernel"""

    _fields_ = [("call", ctypes.c_void_p), ("argument_count", ctypes.c_uint64),
                ("argument_sizes", ctypes.POINTER(ctypes.c_uint8)), ("argument_kinds", ctypes.c_char_p),
                ("shared_place", ctypes.c_void_p), ("dynamic_shared", ctypes.c_void_p),
                ("dynamic_capacity", ctypes.c_uint64)]


KEPT_STACKS = ctypes.pointer(CStacks())     # of this process, for all launches
