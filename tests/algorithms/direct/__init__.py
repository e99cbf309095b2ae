"""Tests of ``direct``."""
