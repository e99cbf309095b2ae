"""Tests of ``toeplitz_1d_nhwc``."""
