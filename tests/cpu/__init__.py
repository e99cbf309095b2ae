"""Emitted kernels, executed on the CPU device."""
