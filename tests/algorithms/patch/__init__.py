"""Tests of ``patch``."""
