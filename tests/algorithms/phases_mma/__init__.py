"""Tests of ``phases_mma``."""
