"""The CPU device, and CUDA's over a stand-in for the driver."""
