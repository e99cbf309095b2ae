"""Tests of ``channels``."""
