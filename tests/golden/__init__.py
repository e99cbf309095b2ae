"""Emitted CUDA under review."""
