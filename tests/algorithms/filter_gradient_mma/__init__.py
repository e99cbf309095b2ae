"""Tests of ``filter_gradient_mma``."""
