"""Studies that measure. Each is one command, ``python -m bench STUDY``, and writes data, a plot and a table."""
