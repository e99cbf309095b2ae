"""Timings: found, kept, used."""
