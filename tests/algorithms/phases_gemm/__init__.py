"""Tests of ``phases_gemm``."""
