"""The command line's run, build and cache: on arrays in files, checked, and what they refuse."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests import reference
from tests.api.test_cli import LAYER, good, run
from tests.runtime import device_object
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue


def arrays(folder: Path, **shapes: tuple[int, ...]) -> list[str]:
    rng = np.random.default_rng(1)
    for name, shape in shapes.items():
        np.save(folder / f"{name}.npy", rng.standard_normal(shape).astype(np.float32))
    return [str(folder / f"{name}.npy") for name in shapes]


def test_run_checks_its_result(tmp_path):
    files = arrays(tmp_path, x=(2, 4, 11, 13), w=(6, 2, 3, 2), b=(6,))
    out = tmp_path / "y.npy"
    text = good("run", *files, "-o", out, "--groups", "2", "--padding", "1,0,2,1", "--activation", "relu", "--check",
                "--device", "cpu")
    assert "within" in text
    y = np.load(out)
    assert y.shape == (2, 6, 10, 15) and y.min() == 0.0


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype, saved", [("float32", "float32"), ("float16", "float16"), ("bfloat16", "uint16"),
                                          ("bfloat16", "V2")])
def test_run_in_every_type_and_layout(tmp_path, dtype, saved, layout):
    """Axes in the layout's order; bfloat16 as its bits or as ml_dtypes saves it, and the output as the input."""
    shape = ConvShape(n=2, c=4, h=11, w=13, k=6, r=3, s=2, groups=2, padding=((1, 0), (2, 1)), dtype=dtype,
                      layout=layout)
    operands = reference.operands(shape, np.random.default_rng(3))
    files = [tmp_path / f"{name}.npy" for name in "xwb"]
    for file, array in zip(files, operands):
        np.save(file, array if saved in (dtype, "V2") else array.view(saved))
    named = ["--dtype", "bf16"] if dtype == "bfloat16" else []
    text = good("run", *files, "-o", tmp_path / "y.npy", "--groups", "2", "--padding", "1,0,2,1", "--activation",
                "relu", "--check", "--device", "cpu", "--layout", layout, *named)
    assert "within" in text and (f"half a step of {dtype}" in text) == (dtype != "float32")
    y = np.load(tmp_path / "y.npy")
    assert y.dtype == np.dtype(saved) and y.shape == layout_sizes(layout, (2, 6, 10, 15))
    wanted = reference.expected(*operands[:2], shape, bias=operands[2], epilogue=(Epilogue.BIAS, Epilogue.RELU))
    wanted.check(y.view(operands[0].dtype), text)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_outputs_in_bfloat16_of_other_inputs_are_its_bits(tmp_path, dtype):
    """They were written as the input's type, with these bits."""
    bfloat16 = pytest.importorskip("ml_dtypes", reason="bfloat16 in NumPy").bfloat16
    shape = ConvShape(n=1, c=1, h=8, w=8, k=3, r=3, s=3, padding=1, dtype=dtype, out_dtype="bfloat16")
    operands = reference.operands(shape, np.random.default_rng(5))[:2]
    files = [tmp_path / f"{name}.npy" for name in "xw"]
    for file, array in zip(files, operands):
        np.save(file, array)
    text = good("run", *files, "-o", tmp_path / "y.npy", "--padding", "1", "--out-dtype", "bfloat16", "--check",
                "--device", "cpu")
    y = np.load(tmp_path / "y.npy")
    assert y.dtype == np.uint16 and y.shape == (1, 3, 8, 8)
    reference.expected(*operands, shape).check(y.view(bfloat16), text)


def layout_sizes(layout, sizes):
    n, c, h, w = sizes
    return sizes if layout == "NCHW" else (n, h, w, c)


def test_run_of_float16_tells_overflow_from_error(tmp_path):
    """float16 ends at 65504: an infinity beyond it is right, one below it is not."""
    files = [tmp_path / name for name in ("x.npy", "w.npy")]
    np.save(files[0], np.array([60000, -60000, 300], np.float16).reshape(1, 1, 1, 3))
    np.save(files[1], np.full((1, 1, 1, 1), 2, np.float16))
    text = good("run", *files, "-o", tmp_path / "y.npy", "--check", "--device", "cpu")
    assert "2 outputs are not finite" in text
    assert np.load(tmp_path / "y.npy").ravel().tolist() == [np.inf, -np.inf, 600]


def test_run_fails_where_the_result_is_outside_the_bound(tmp_path, monkeypatch):
    from warpconv.runtime.call.kernel import Kernel
    real = Kernel.__call__
    monkeypatch.setattr(Kernel, "__call__", lambda self, *a, **k: real(self, *a, **k) + np.float32(1e-3))
    files = arrays(tmp_path, x=(1, 1, 9, 9), w=(1, 1, 3, 3))
    result = run("run", *files, "-o", tmp_path / "y.npy", "--check", "--device", "cpu")
    assert result.exit_code == 1 and "outside" in result.stderr


def test_run_tells_what_is_not_finite(tmp_path):
    x = np.ones((1, 1, 9, 9), np.float32)
    x[0, 0, 4, 4] = np.inf
    files = arrays(tmp_path, x=(1, 1, 9, 9), w=(1, 1, 3, 3))
    np.save(files[0], x)
    command = ["run", *files, "-o", tmp_path / "y.npy", "--check", "--device", "cpu"]
    assert "9 outputs are not finite" in good(*command)
    np.save(files[1], np.ones((1, 1, 3, 3), np.float32))
    x[0, 0, 4, 4], x[0, 0, 4, 5] = 3e38, 3e38           # their sum is beyond float32, not beyond the reference
    np.save(files[0], x)
    result = run(*command)
    assert result.exit_code == 1 and "6 outputs are finite in only one" in result.stdout


def test_run_refuses_an_output_that_is_an_input_or_no_file(tmp_path):
    files = arrays(tmp_path, x=(1, 1, 9, 9), w=(1, 1, 3, 3), b=(1,))
    before = [Path(file).read_bytes() for file in files]
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "link.npy").symlink_to(files[1])
    for out in (*files, tmp_path / "link.npy", tmp_path / "pipe.npy"):
        result = run("run", *files, "-o", out)
        assert result.exit_code == 2 and str(out) in result.stderr and "--output" in result.stderr
    assert [Path(file).read_bytes() for file in files] == before and (tmp_path / "pipe.npy").is_fifo()


def test_run_leaves_an_older_file_where_it_fails(tmp_path):
    files = arrays(tmp_path, x=(1, 1, 9, 9), w=(1, 2, 3, 3))
    out = tmp_path / "y.npy"
    out.write_bytes(b"older")
    result = run("run", *files, "-o", out)
    assert result.exit_code == 2 and "channels" in result.stderr and out.read_bytes() == b"older"
    np.save(tmp_path / "d.npy", np.ones((1, 1, 3, 3)))
    result = run("run", files[0], tmp_path / "d.npy", "-o", out)
    assert result.exit_code == 2 and "float32" in result.stderr and out.read_bytes() == b"older"


@pytest.mark.nvcc
def test_build_one_layer_and_build_it_again(tmp_path):
    pack = tmp_path / "pack"
    record = json.loads(good("build", *LAYER, "--index-bits", "64", "--arch", "sm_90", "-o", pack, "--json"))
    assert record["ok"] and [row["status"] for row in record["kernels"]] == ["built"]
    assert set(record) == {"pack", "seconds", "ok", "kernels", "left_out", "schema"}
    assert set(record["kernels"][0]) == {"name", "algorithm", "arch", "registers", "spills", "stack", "shared", "bytes",
                                         "status", "reason"}
    text = good("build", *LAYER, "--index-bits", "64", "--arch", "sm_90", "-o", pack)
    assert "up-to-date" in text


def test_cache_lists_verifies_and_clears(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPCONV_CACHE_DIR", str(tmp_path / "cache"))
    device_object.copied(monkeypatch)
    files = arrays(tmp_path, x=(1, 1, 9, 9), w=(1, 1, 3, 3))
    good("run", *files, "-o", tmp_path / "y.npy", "--device", "cpu", "--algorithm", "direct", "--set", "block_size_y=7")
    entries = json.loads(good("cache", "list", "--json"))["entries"]
    if not entries:
        pytest.skip("the kernel was in memory already")
    assert "good" in good("cache", "verify")
    victim = next((tmp_path / "cache" / "entries").iterdir()) / "meta.json"
    victim.write_text("{")
    assert run("cache", "verify").exit_code == 1
    assert f"removed {len(entries)}" in good("cache", "clear")
    assert json.loads(good("cache", "list", "--json"))["entries"] == []
