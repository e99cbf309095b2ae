"""SciPy's calls."""
