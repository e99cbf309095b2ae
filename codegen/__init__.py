"""From a layer's shape to CUDA source. Pure: no CUDA, no subprocess, no file written, no clock."""
