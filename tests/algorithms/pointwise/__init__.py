"""Tests of ``pointwise``."""
