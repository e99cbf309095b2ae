"""Tests of ``sequence_gradient``."""
