"""Tests of ``hankel``."""
