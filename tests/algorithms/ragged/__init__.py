"""Tests of ``ragged``."""
