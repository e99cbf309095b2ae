"""Tests of ``hankel_1d_nhwc``."""
