"""Tests of the documents' teaching steps."""
