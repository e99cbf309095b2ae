"""The test rings: unit, golden, cpu, gpu. What they share lies here: reference, cases, drawn layers."""
