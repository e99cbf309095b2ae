"""Arrays in chunks."""
