"""Kernels built ahead of time."""
