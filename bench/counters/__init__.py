"""Hardware counters, and exact counts beside them."""
