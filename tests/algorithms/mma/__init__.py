"""Tests of ``mma``."""
