"""A fuzzer: ``python -m tests.fuzz --seconds N --seed S``."""
