"""Tests of ``toeplitz``."""
