"""From source to result: compilers, cache, devices, kernels, packs."""
