"""Tests of ``taps_float32``."""
