"""Tests of ``filter_gradient_wgmma``."""
