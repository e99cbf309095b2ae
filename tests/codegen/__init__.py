"""Layers, plans and texts, without a device."""
