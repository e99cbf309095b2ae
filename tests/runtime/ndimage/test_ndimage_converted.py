"""``dtype=``: arrays of types that no kernel reads, and results of types that none stores, beside SciPy's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import warpconv
from tests import settings
from tests.runtime.ndimage.test_ndimage import ndimage, needs_cpu, needs_scipy
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.runtime.ndimage import converted

CALLS = (("gaussian_filter", {"sigma": 1.1}), ("uniform_filter", {"size": (3, 4)}), ("sobel", {}), ("laplace", {}),
         ("gaussian_laplace", {"sigma": 1.1}), ("correlate", {"weights": [[1, 2, -1], [0, 1, 3]]}),
         ("convolve1d", {"weights": [1, -2, 4]}))
GIVEN = ("float64", "int32", "int64", "uint32", "uint64", "bool")


def drawn(seed, dtype, shape=(11, 13)):
    rng = settings.generator(seed)
    if dtype == "bool":
        return rng.random(shape) > 0.5
    if dtype == "float64":
        return rng.standard_normal(shape) * 50
    return rng.integers(0 if dtype.startswith("u") else -1000, 1000, shape).astype(dtype)


@pytest.mark.long
@needs_cpu
@needs_scipy
@pytest.mark.parametrize("given", GIVEN)
def test_types_that_no_kernel_reads(given):
    x = drawn(61, given)
    for (name, arguments), output in ((call, output) for call in CALLS for output in (None, "float32", "int32")):
        if given.startswith("uint") and output is None and name not in ("gaussian_filter", "uniform_filter"):
            continue        # C leaves negative sums as unsigned numbers undefined
        got = getattr(warpconv, name)(x, output=output, device="cpu", dtype="float32", **arguments)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = getattr(ndimage, name)(x, output=output, **arguments)
        assert got.dtype == theirs.dtype and got.shape == theirs.shape
        if got.dtype.kind == "f":
            assert np.abs(got - theirs).max() <= 1e-6 * 8 * np.abs(x.astype(float)).max()
        elif got.dtype.kind == "b":     # a byte of 2 is true, and SciPy stores one
            assert np.array_equal(got, theirs.view(np.uint8) != 0)
        else:                           # which side of a whole number a rounded sum truncates to
            whole = x.dtype.kind in "iub" and "gaussian" not in name
            assert np.abs(got.astype(np.int64) - theirs.astype(np.int64)).max() <= (0 if whole else 3), (name, output)


@pytest.mark.long
@needs_cpu
def test_results_of_any_type():
    x = drawn(62, "float64")
    single = warpconv.gaussian_filter(x.astype("float32"), 1.1, device="cpu")
    assert np.array_equal(warpconv.gaussian_filter(x, 1.1, device="cpu", dtype=np.float32), single)
    wide = warpconv.gaussian_filter(x.astype("float32"), 1.1, output="float64", device="cpu", dtype="float32")
    assert wide.dtype == np.float64 and np.array_equal(wide, single)
    out = np.full(x.shape, np.nan)
    made = warpconv.gaussian_filter(x, 1.1, output=out, device="cpu", dtype="float32")
    assert made is out and np.array_equal(out, single)
    assert warpconv.gaussian_filter(x, 1.1, 0, x, device="cpu", dtype="float32") is x and np.array_equal(x, single)
    small = np.arange(12).reshape(3, 4)
    exact = warpconv.correlate(small, [[1, 1]], device="cpu", dtype="int16")
    assert exact.dtype == np.int64 and np.array_equal(exact[:, 1:], small[:, 1:] + small[:, :-1])
    assert warpconv.correlate(small.astype(">i4"), [[2]], "float32", device="cpu", dtype="uint8").tolist() == \
        (2.0 * small).tolist()
    half = warpconv.sobel(drawn(63, "float64"), device="cpu", dtype="float16")
    assert half.dtype == np.float64
    magnitude = warpconv.generic_gradient_magnitude(drawn(63, "bool"), warpconv.sobel, "float64", device="cpu",
                                                    dtype="uint8")
    assert magnitude.dtype == np.float64 and magnitude.max() > 1


X = np.zeros((4, 5))


@pytest.mark.parametrize("call, error, argument, told", [
    (lambda: warpconv.sobel(X), ArgumentTypeError, "input", "dtype='float32'"),
    (lambda: warpconv.sobel(X > 0), ArgumentTypeError, "input", "dtype='float32'"),
    (lambda: warpconv.sobel(X.astype("float32"), output="float64"), ArgumentTypeError, "output", "dtype="),
    (lambda: warpconv.sobel(X * 1j, dtype="float32"), ArgumentTypeError, "input", ".real"),
    (lambda: warpconv.sobel(X, dtype="float64"), ArgumentTypeError, "dtype", "float32"),
    (lambda: warpconv.sobel(X, dtype="number"), ArgumentTypeError, "dtype", "float32"),
    (lambda: warpconv.sobel([[1.0]], dtype="float32"), ArgumentTypeError, "input", "NumPy"),
    (lambda: warpconv.sobel(X, dtype="float32", output=complex), ArgumentTypeError, "output", "float64"),
    (lambda: warpconv.sobel(X.astype("float32"), output=np.dtype("float32").newbyteorder("S")), ArgumentTypeError,
     "output", "astype"),
    (lambda: warpconv.sobel(X, dtype="float32", output=np.zeros((5, 4))), ShapeError, "output", "(4, 5)"),
    (lambda: warpconv.sobel(X, dtype="float32", output=np.broadcast_to(0.0, (4, 5))), ArgumentError, "output", "writ"),
    (lambda: warpconv.generic_laplace(X.astype("int32"), warpconv.sobel, dtype="float32"), ArgumentTypeError, "output",
     "float32"),
], ids=lambda value: getattr(value, "__name__", value))
def test_what_is_not_converted(call, error, argument, told):
    with pytest.raises(error) as caught:
        call()
    assert caught.value.argument == argument and told in caught.value.hint


@needs_cpu
def test_tensors_are_converted_by_their_library():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = torch.from_numpy(drawn(64, "float64"))
    got = warpconv.gaussian_filter(x, 1.0, device="cpu", dtype="float32")
    assert got.dtype is torch.float64
    assert np.array_equal(got.numpy(), warpconv.gaussian_filter(x.numpy(), 1.0, device="cpu", dtype="float32"))
    out = torch.zeros(x.shape, dtype=torch.int32)
    assert warpconv.sobel(x, output=out, device="cpu", dtype=torch.float32) is out and bool(out.any())


@pytest.mark.parametrize("name", ["uint8", "uint16", "uint32"])
def test_negative_floats_wrap_round_as_numpys_do(name):
    """What SciPy stores of them; a GPU's own cast makes zeros."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    values = np.array([-3.7, 5.2, -838572450.0, 0.0, -1.0], np.float32)
    expected = np.trunc(values.astype(np.float64)).astype(np.int64) % (1 << 8 * np.dtype(name).itemsize)
    assert np.array_equal(converted.cast(torch.tensor(values), name, None).numpy().astype(np.int64), expected)


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", [">f4", ">i2", ">f8", np.dtype(">f4")])
def test_results_have_the_byte_order_that_is_asked_for(name):
    x = np.random.default_rng(3).random((20, 30))
    made = warpconv.gaussian_filter(x, 1.0, output=name, dtype="float32", device="cpu")
    assert made.dtype == np.dtype(name)
    native = np.dtype(name).newbyteorder("=")
    assert np.array_equal(made, warpconv.gaussian_filter(x, 1.0, output=native, dtype="float32", device="cpu"))
    pair = warpconv.gaussian_filter([x, x[:9]], 1.0, output=name, dtype="float32", device="cpu")
    assert [each.dtype for each in pair] == [np.dtype(name)] * 2


def test_names_of_types_of_other_libraries_have_no_byte_order():
    x = np.random.default_rng(3).random((20, 30))
    made = warpconv.gaussian_filter(x, 1.0, output="torch.float32", dtype="float32", device="cpu")
    assert made.dtype == np.float32
