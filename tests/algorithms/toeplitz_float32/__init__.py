"""Tests of ``toeplitz_float32``."""
