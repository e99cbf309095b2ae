"""From a plan to a binary: compilers, the disk cache, disassembly."""
