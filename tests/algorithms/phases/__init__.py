"""Tests of ``phases``."""
