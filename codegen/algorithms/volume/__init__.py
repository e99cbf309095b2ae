"""Layers of volumes and their gradients: a block walks along the depth, and reads each plane about once."""
