"""Emitted kernels on a GPU (marked; skipped with the reason where there is none)."""
