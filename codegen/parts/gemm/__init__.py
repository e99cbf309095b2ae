"""Products of matrices: tiles, their choice, what implicit_gemm and im2win share."""
