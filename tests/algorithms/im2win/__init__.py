"""Tests of ``im2win``."""
