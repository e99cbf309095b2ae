"""Tests of ``bias_gradient``."""
