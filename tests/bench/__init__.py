"""The studies, on devices that are played."""
