"""Tests of ``reuse``."""
