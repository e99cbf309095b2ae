"""Tests of ``staged``."""
