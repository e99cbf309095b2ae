"""The float64 reference that --check uses."""
