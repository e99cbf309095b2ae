"""Tests of ``toeplitz_1d``."""
