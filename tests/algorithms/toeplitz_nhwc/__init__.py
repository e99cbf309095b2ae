"""Tests of ``toeplitz_nhwc``."""
