"""The driver layer: contexts, modules, streams and memory of NVIDIA GPUs. Importing it touches no GPU."""
