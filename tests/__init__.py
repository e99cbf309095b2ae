"""The test rings: unit, golden, cpu, gpu. What they share lies here: reference, cases, drawn layers."""

import sys

# whatever the environment says: to compile the project and to rewrite the tests' assertions takes each process 20 s
sys.dont_write_bytecode = False
