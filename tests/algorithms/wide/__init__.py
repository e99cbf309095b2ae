"""Tests of ``wide``."""
