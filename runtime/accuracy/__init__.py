"""The float64 reference, rounding bounds, and counts beside them."""
