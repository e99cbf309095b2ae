"""Tests of ``sequence``."""
