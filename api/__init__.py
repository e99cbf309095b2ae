"""warpconv: CUDA convolution kernels generated for a layer."""
