"""Layers of volumes on the command line and in LAYERS files."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from tests import volumes
from tests.api.test_cli import good, run
from warpconv.codegen.border import Border
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ShapeError
from warpconv.codegen.layer import padding_text
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue
from warpconv.runtime.accuracy import reference as accuracy
from warpconv.runtime.layers import default_name, read_layers
from warpconv.runtime.pack.pack import open_pack

LAYER = ["--input", "N,1,D,H,W", "--filter", "1,3,3,3", "--padding", "1"]
CASES = [LAYER, ["--input", "2,4,9,14,20", "--filter", "6,3,2,5", "--padding", "1,0,2,1,0,1", "--stride", "1,2,1",
                 "--dilation", "2,1,1", "--groups", "2", "--padding-mode", "reflect", "--epilogue", "bias,relu"],
         ["--input", "N,D,H,W,3", "--filter", "3,3,3,3", "--groups", "3", "--layout", "NDHWC", "--dtype", "float16"],
         ["--input", "1,32,16,56,56", "--filter", "64,3,3,3", "--padding", "1"],     # letters' 512^3 pass 2^31 elements
         ["--input", "2,14,30,28,17", "--filter", "17,3,3,3", "--groups", "17", "--layout", "NDHWC"],
         ["--input", "1,32,16,56,56", "--filter", "64,1,1,1", "--operation", "data_gradient"],
         ["--input", "1,8,D,H,W", "--filter", "32,3,3,3", "--index-bits", "32"],
         ["--input", "N,32,D,H,W", "--filter", "32,3,3,3"],                             # and have 64 bits as they stand
         [*LAYER, "--operation", "filter_gradient"], [*LAYER, "--stride", "2", "--operation", "data_gradient"]]


@pytest.mark.parametrize("options", CASES, ids=" ".join)
def test_the_command_in_an_emitted_text_gives_it_again(options):
    text = good("emit", *options)
    command = re.search(r"//   warpconv (emit (?:.*\\\n//)*.*)\n", text)[1]
    again = [word.strip("'") for word in re.sub(r"\\\n//", " ", command).split()]
    assert "--filter" in again and good(*again) == text


def test_explain_and_inspect():
    record = json.loads(good("explain", *LAYER, "--json"))
    assert record["layer"].startswith("x[1, 1, 512, 512, 512] * w[1, 1, 3, 3, 3]")
    assert [row["algorithm"] for row in record["candidates"] if row["chosen"]] == ["volume"]
    text = good("inspect", "--input", "1,1,8,12,16", "--filter", "1,3,3,3", "--no-source")
    assert "executed on the CPU device" in text and "of the bound at worst" in text


@pytest.mark.thin(2)
@pytest.mark.parametrize("number", range(6))
def test_run_checks_its_result(tmp_path, number):
    volume = volumes.drawn(number, n=1, dtype=(DType.FLOAT32, DType.FLOAT16)[number % 2])
    shape = volume.shape
    names = [str(tmp_path / f"{name}.npy") for name in "xwb"]
    for name, array in zip(names, (volume.stored(volume.x), volume.w, volume.b)):
        np.save(name, array)
    text = good("run", *names, "-o", tmp_path / "y.npy", "--check", "--device", "cpu", "--groups", str(shape.groups),
                "--stride", ",".join(map(str, shape.stride)), "--dilation", ",".join(map(str, shape.dilation)),
                "--padding", padding_text(shape.padding), "--padding-mode", shape.padding_mode.value,
                "--padding-value", str(shape.padding_value), "--layout", volume.options["layout"])
    assert "within the bound (C/groups*T*R*S + 2)" in text
    made = np.load(tmp_path / "y.npy")
    volume.check_forward(np.moveaxis(made, -1, 1) if shape.layout.value == "NHWC" else made)


@pytest.mark.parametrize("number", range(8))
def test_the_reference_is_the_sum_tap_by_tap(number):
    """Another way to the same float64 sums; and one element that is off is outside."""
    volume = volumes.drawn(number + 50)
    shape = volume.shape
    arrays = volume.stored(volume.x), volume.w, shape
    found = accuracy.reference(*arrays, bias=volume.b, epilogue=(Epilogue.BIAS,))
    wanted = volume.forward(volume.x, volume.w) + volume.b.astype(np.float64).reshape(-1, 1, 1, 1)
    np.testing.assert_allclose(found.output, volume.stored(wanted), rtol=1e-12, atol=1e-12)
    near = found.output.astype(volume.x.dtype)
    assert accuracy.compare(near, *arrays, bias=volume.b, epilogue=(Epilogue.BIAS,)).within
    off = near.copy()
    off.flat[off.size // 2] += 4 * found.bound.flat[off.size // 2] + 1
    assert not accuracy.compare(off, *arrays, bias=volume.b, epilogue=(Epilogue.BIAS,)).within


FILE = """
[defaults]
padding = 1
[layer.head]
input = [1, 2, 6, 12, 16]
filter = [4, 3, 3, 3]
epilogue = ["bias", "relu"]
[layer.deep]
input = [1, 5, 6, 7, 4]
filter = [4, 3, 2, 1]
groups = 4
stride = [1, 2, 1]
padding = [1, 1, 2, 0, 0, 1]
padding_mode = "reflect"
layout = "NHWC"
[layer.image]
input = [1, 3, 20, 20]
filter = [4, 3, 3]
"""


def test_layers_of_a_file(tmp_path):
    (tmp_path / "v.toml").write_text(FILE)
    head, deep, image = read_layers(tmp_path / "v.toml")
    assert head.shape == ConvShape(n=1, c=2, d=6, h=12, w=16, k=4, t=3, r=3, s=3, padding=1)
    assert deep.shape == ConvShape(n=1, c=4, d=5, h=6, w=7, k=4, t=3, r=2, s=1, groups=4, stride=(1, 2, 1),
                                   padding=((1, 1), (2, 0), (0, 1)), padding_mode=Border.REFLECT, layout="NHWC")
    assert image.shape == ConvShape(c=3, h=20, w=20, k=4, r=3, s=3, padding=1)
    assert default_name(head.shape) == "c2_k4_3x3x3_s1_p1"
    rows = json.loads(good("explain", tmp_path / "v.toml", "--json"))["results"]
    chosen = {row["name"]: [one["algorithm"] for one in row["result"]["candidates"] if one["chosen"]] for row in rows}
    assert chosen["head"] == chosen["deep"] == ["volume"] and chosen["image"] != ["volume"]


@pytest.mark.parametrize("line, error, told", [
    ("input = [1, 2, 6, 12]\nfilter = [4, 3, 3, 3]", ArgumentError, "input is a list of 5 numbers"),
    ("input = [1, 2, 6, 12, 16]\nfilter = [4, 3, 3]", ArgumentError, "input is a list of 4 numbers"),
    ("input = [1, 2, 6, 12, 16]\nfilter = [4, 9, 3, 3]", ShapeError, "the filter's depth"),
    ("input = [1, 2, 6, 12, 16]\nfilter = [4, 0, 3, 3]", ShapeError, "layer.one.filter"),
    ("input = [1, 2, 6, 12, 16]\nfilter = [4, 3, 3, 3]\nstride = [1, 2]", ShapeError, "(depth, vertical, horizontal)"),
    ("input = [1, 2, 6, 12, 16]\nfilter = [4, 3, 3, 3]\nt = 3", ArgumentError, "unknown key")])
def test_mistakes_in_a_file(tmp_path, line, error, told):
    (tmp_path / "v.toml").write_text(f"[layer.one]\n{line}\n")
    with pytest.raises(error) as met:
        read_layers(tmp_path / "v.toml")
    assert told in str(met.value)


@pytest.mark.parametrize("options, told", [
    (["--input", "1,1,8,8", "--filter", "1,3,3,3"], "N,C,D,H,W"),
    (["--input", "1,1,8,8,8", "--filter", "1,3,3"], "N,C,H,W"),
    (["--input", "1,1,8,8,8", "--filter", "1,3,3,3", "--stride", "1,2"], "A,B,C (depth, vertical, horizontal)"),
    (["--input", "1,1,8,8,8", "--filter", "1,3,3,3", "--padding", "1,1,1,1"], "F,B,T,B,L,R"),
    (["--input", "1,1,8,8", "--filter", "1,3,3", "--layout", "NDHWC"], "NDHWC"),
    (["--input", "1,1,8,8,8", "--filter", "1,3,3,3", "--pitched"], "volumes have no gaps")])
def test_mistakes(options, told):
    made = run("emit", *options)
    assert made.exit_code == 2 and told in made.output


def test_a_volume_is_tuned(tmp_path):
    text = good("tune", "--input", "1,1,8,8,8", "--filter", "1,3,3,3", "--device", "cpu", "--algorithm", "volume",
                "--set", "rows=1,2", "--database", tmp_path / "tuning.json")
    assert "3 timed" in text and "volume" in text       # the rule's own too


def test_build_of_a_layer_in_options(tmp_path):
    text = good("build", *LAYER, "--arch", "sm_90", "-o", tmp_path / "pack")
    assert "1 built" in text
    (kernel,) = open_pack(tmp_path / "pack").kernels()
    assert kernel.layers == ("c1_k1_3x3x3_s1_p1",) and kernel.spec.is_volume


@pytest.mark.thin(2)
@pytest.mark.parametrize("operation, counted", [("data_gradient", "dy"), ("filter_gradient", "x")])
def test_a_gradient_is_inspected(operation, counted):
    """Executed and counted, beside its exact value."""
    record = json.loads(good("inspect", "--input", "1,4,5,6,7", "--filter", "6,2,3,2", "--padding", "1", "--operation",
                             operation, "--no-source", "--json"))
    assert record["measured"]["worst_ratio"] <= 1
    assert {row["buffer"] for row in record["measured"]["buffers"]} >= {counted}


def test_a_pack_of_nothing_is_no_pack(tmp_path):
    made = run("build", "--input", "N,4,D,H,W", "--filter", "6,3,2,2", "--operation", "bias_gradient",
               "--arch", "sm_90", "-o", tmp_path / "pack.zip")
    assert made.exit_code == 1 and "not written" in made.output and not (tmp_path / "pack.zip").exists()
