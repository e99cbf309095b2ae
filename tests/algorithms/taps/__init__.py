"""Tests of ``taps``."""
