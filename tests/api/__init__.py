"""The public face: the command line, filters, imports."""
