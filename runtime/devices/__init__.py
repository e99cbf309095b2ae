"""What executes a program: a GPU or the CPU device."""
