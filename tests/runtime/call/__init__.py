"""Calls and kernels."""
