"""Tests of ``phases_wgmma``."""
