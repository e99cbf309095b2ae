"""Tests of ``taps_wgmma``."""
