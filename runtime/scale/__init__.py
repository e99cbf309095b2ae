"""Arrays larger than memory, and several GPUs: SciPy's calls on Dask's arrays, and files filtered chunk by chunk."""
