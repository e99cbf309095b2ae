"""A call: what is given, checked, planned, kept and launched."""
