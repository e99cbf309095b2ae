"""Tests of ``grouped``."""
