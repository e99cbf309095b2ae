"""Tests of ``taps_ieee``."""
