"""Tests of ``filter_gradient``."""
