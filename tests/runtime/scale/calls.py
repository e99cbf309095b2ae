"""What is said of a drawn call on chunks."""

from __future__ import annotations

import numpy as np

import warpconv


def agree(name, x, chunks, arguments, options, run=lambda array: array.compute()):
    """That the call on chunks gives what the whole call and SciPy give. ``run`` computes."""
    import dask.array as da
    from scipy import ndimage

    import warpconv.dask as chunked
    whole = getattr(warpconv, name)(x, *arguments, **options)
    lazy = getattr(chunked, name)(da.from_array(x, chunks=chunks), *arguments, **options)
    made = run(lazy)
    assert made.dtype == lazy.dtype == whole.dtype
    near = 1e-5 * max(1.0, float(np.abs(whole).max()))
    if "algorithm" in options or made.dtype.kind != "f":
        assert np.array_equal(made, whole)
    else:
        assert np.abs(made - whole).max() <= near
    theirs = getattr(ndimage, name)(x, *arguments, **{key: value for key, value in options.items()
                                                      if key not in ("device", "algorithm")})
    assert np.abs(made.astype(np.float64) - theirs).max() <= (near if made.dtype.kind == "f" else 0)
