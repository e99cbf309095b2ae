"""CUDA texts for the CPU device, and the harness that launches them."""
