"""Tests of ``filter_gradient_tma``."""
