"""The documents' teaching steps and basic forms, taken by name."""
