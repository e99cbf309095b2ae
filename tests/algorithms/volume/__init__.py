"""Tests of the algorithms of volumes."""
