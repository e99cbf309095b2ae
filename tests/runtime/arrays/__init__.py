"""Arrays of all libraries as views."""
