"""The studies: what each measures, its tables and plots."""
