"""The tests of runtime/build."""
