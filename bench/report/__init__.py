"""Results on disk, and what they were measured on."""
