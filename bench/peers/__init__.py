"""What a user would call instead."""
