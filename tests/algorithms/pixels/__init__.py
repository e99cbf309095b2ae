"""Tests of ``pixels``."""
