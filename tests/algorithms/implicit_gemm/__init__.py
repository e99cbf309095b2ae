"""Tests of ``implicit_gemm``."""
