"""Tests of ``wgmma``."""
