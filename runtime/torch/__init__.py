"""What PyTorch sees of warpconv: operators with gradients, shapes for its compilers, and casts. Imported when a tensor
needs them; nothing else imports PyTorch."""
