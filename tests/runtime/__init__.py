"""The run time."""
