"""Tests of ``hankel_1d``."""
