"""Tests of ``im2col``."""
