"""docs/examples/launch_wgmma.c has the numbers of the kernel that its head has emitted, and compiles."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from warpconv.cli import cli
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "launch_wgmma.c"
TEXT = EXAMPLE.read_text(encoding="utf-8")


def number(name: str) -> int:
    return int(re.search(rf"\b{name} = (\d+)", TEXT)[1])


def plan():
    values = dict(form="im2col", filters=64, pixels=64, stages=4, buffer=32, splits=1)
    shape = ConvShape(n=number("N"), c=number("C"), h=number("H"), w=number("W"), k=number("K"), r=number("R"),
                      s=number("S"), padding=number("PAD"), dtype="float16", layout="NHWC")
    return plan_layer(shape, algorithm="wgmma", settings=values), shape


def test_its_numbers_are_the_plans():
    made, shape = plan()
    (prepare,), (product,) = made.program.preparation.steps, made.program.steps
    x, filters, y = (descriptor.at(shape) for descriptor in made.program.descriptors)
    assert product.block == (number("THREADS"), 1, 1) and product.shared_bytes == number("SHARED_BYTES")
    assert prepare.block == (number("SIDE_THREADS"), 1, 1)
    assert x.box == (number("SLICE"), number("TILE_PIXELS"))
    assert filters.box == (number("SLICE"), 1, number("TILE_FILTERS")) and y.box == (64, number("STORE_PIXELS"))
    assert product.arguments == ("x_map", "filter_map", "y_map", "N", "P", "Q") and product.entry in TEXT
    tiles = -(-shape.n * shape.p * shape.q // number("TILE_PIXELS"))
    assert product.grid_of(shape)[0] == tiles


def test_its_command_emits_that_kernel():
    command = re.search(r"warpconv (emit .*?) > wgmma.cu", TEXT, re.DOTALL)[1].replace("\\\n", " ")
    done = CliRunner().invoke(cli, shlex.split(command))
    assert done.exit_code == 0 and f"{number('SHARED_BYTES')} bytes of shared" in done.output


def test_it_compiles(tmp_path):
    compiler = shutil.which("cc")
    folders = (Path("/usr/local/cuda/include"), *sorted(Path("/usr/local").glob("cuda-*/include")))
    header = next((folder for folder in folders if (folder / "cuda.h").exists()), None)
    if compiler is None or header is None:
        pytest.skip("a C compiler and the CUDA toolkit's cuda.h are needed")
    subprocess.run([compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-I", header, "-c", "-o",
                    tmp_path / "launch.o", EXAMPLE], check=True)
