"""Tests of ``taps_mma``."""
