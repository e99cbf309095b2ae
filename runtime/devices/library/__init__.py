"""Steps of a program that a library does: cuBLAS on a GPU, NumPy on the CPU device."""
