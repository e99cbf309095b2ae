"""precision= outside of the planners: layers files, packs, tuning databases, the command line, calls."""

from __future__ import annotations

import re

import numpy as np
import pytest
from click.testing import CliRunner

import warpconv
from tests import checks
from warpconv.cli import cli
from warpconv.codegen.errors import ArgumentError, UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.render import render
from warpconv.codegen.request import Request
from warpconv.codegen.resolution import resolve
from warpconv.codegen.select import plan_layer
from warpconv.codegen.serialise import decode, encode
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation
from warpconv.runtime.call import kernels
from warpconv.runtime.layers import default_name, read_layers
from warpconv.runtime.pack.choice import serves
from warpconv.runtime.tuning import choice, files
from warpconv.runtime.tuning.records import Database, Origin, Outcome, Subject, Timing
from warpconv.runtime.tuning.space import Space

LAYER = ConvShape(n=32, c=64, h=28, w=28, k=64, r=3, s=3, padding=1, layout="NHWC")
ARCH = Arch(9, 0)
FLAGS = ["--input", "32,28,28,64", "--filter", "64,3,3", "--padding", "1", "--layout", "NHWC"]
on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


def spec(precision: str = "float32", **more: object) -> KernelSpec:
    return plan_layer(LAYER, precision=precision, **more).spec


# ---- keys

def test_a_kernel_of_float32_units_is_the_same_whoever_asks_for_it():
    """So that what was stored before there was a precision is found, and shared."""
    direct, demanded = spec(algorithm="direct"), spec("ieee", algorithm="direct")
    assert direct == demanded and direct.numerics is Numerics.FLOAT32
    assert encode(direct)["numerics"] == "float32" and decode(KernelSpec, encode(spec())) == spec()
    assert Request.of(LAYER) != Request.of(LAYER, precision="ieee")


def test_on_the_cpu_device_float32_layers_are_of_units_where_nothing_else_is_asked():
    assert plan_layer(LAYER).spec.numerics is not Numerics.FLOAT32

    def asked(**more):
        return kernels.plan_of(kernels.asked(LAYER, None, **more)).spec.numerics

    assert asked() is asked(precision="ieee") is Numerics.FLOAT32
    assert asked(arch="sm_90a") is plan_layer(LAYER, arch="sm_90a").spec.numerics is not Numerics.FLOAT32
    assert asked(algorithm="mma") is asked(precision="tf32x3") is Numerics.TF32X3
    assert asked(precision="tf32") is Numerics.TF32


def test_which_kernels_of_a_pack_answer():
    specs = (spec(arch="sm_80"), spec(), spec("tf32"), spec("ieee"))
    assert [s.numerics for s in specs] == [Numerics.TF32X3, Numerics.FP16X3, Numerics.TF32, Numerics.FLOAT32]
    answers = {asked: [serves(s, LAYER, (), asked) for s in specs] for asked in (
        Numerics.FLOAT32, Numerics.TF32X3, Numerics.FP16X3, Numerics.TF32, Numerics.IEEE)}
    assert answers == {Numerics.FLOAT32: [True, True, False, True], Numerics.TF32X3: [True, False, False, False],
                       Numerics.FP16X3: [False, True, False, False], Numerics.TF32: [True, True, True, True],
                       Numerics.IEEE: [False, False, False, True]}


def test_a_data_gradient_counts_its_own_sums():
    """Of 8 channels and 64 filters the forward layer's sums are short, the gradient's are not."""
    shape = ConvShape(n=32, c=8, h=28, w=28, k=64, r=3, s=3, padding=1, layout="NHWC")
    assert plan_layer(shape, arch="sm_80").spec.numerics is Numerics.FLOAT32
    made = plan_layer(shape, algorithm="mma", operation="data_gradient", arch="sm_80")
    assert made.spec.numerics is Numerics.TF32X3
    assert serves(made.spec, shape, (), operation=Operation.DATA_GRADIENT)
    with pytest.raises(UnsupportedSpec):
        plan_layer(shape, algorithm="mma", operation="data_gradient", precision="ieee", arch="sm_80")


# ---- files

def test_layers_files_have_it(tmp_path):
    path = tmp_path / "layers.toml"
    path.write_text('[defaults]\nprecision = "tf32"\nlayout = "NHWC"\n[layer.a]\ninput = [32, 28, 28, 64]\n'
                    'filter = [64, 3, 3]\n[layer.b]\ninput = [32, 28, 28, 64]\nfilter = [64, 3, 3]\n'
                    'precision = "ieee"\n')
    a, b = read_layers(path)
    assert (a.numerics, b.numerics) == (Numerics.TF32, Numerics.IEEE)
    assert a.plan("sm_80").spec.numerics is Numerics.TF32 and b.plan("sm_80").spec.algorithm != "mma"
    names = {default_name(LAYER, numerics=n) for n in Numerics}
    assert len(names) == len(Numerics) and any(name.endswith("_tf32x3") for name in names)
    path.write_text(path.read_text().replace('"ieee"', '"double"'))
    with pytest.raises(ArgumentError, match="layer b: unknown precision") as caught:
        read_layers(path)
    assert caught.value.argument == "layer.b.precision" and "tf32x3" in caught.value.hint


def test_measured_choices_count_for_their_precision(tmp_path):
    where = Origin(device="NVIDIA H200", arch="sm_90", driver="580", cuda="13.0", compiler="NVRTC 13.0",
                   warpconv="0.1.0", generator="g", date="2026-11-20 12:00")
    database = Database()
    for numerics, algorithm, us in ((Numerics.FLOAT32, "direct", 4.0), (Numerics.TF32, "mma", 2.0)):
        subject = Subject(device=where.device, arch=where.arch, shape=LAYER, numerics=numerics)
        database.add(subject, Timing(algorithm=algorithm, values=(), outcome=Outcome.TIMED, origin=where.id, us=us,
                                     low=us, high=us, samples=9), where)
    files.write(tmp_path / "tuning.json", database)
    table = choice.Table(files.read(tmp_path / "tuning.json"), ARCH)
    assert [table.best(LAYER, ARCH, n) and table.best(LAYER, ARCH, n)[0] for n in (
        Numerics.FLOAT32, Numerics.IEEE, Numerics.TF32, Numerics.TF32X3)] == ["direct", "direct", "mma", None]
    assert resolve(Request.of(LAYER), table).plan.spec.algorithm == "direct"
    assert resolve(Request.of(LAYER, precision="tf32"), table).tuned
    assert resolve(Request.of(LAYER, precision="tf32x3"), table).plan.spec.algorithm == "mma"


def test_tunes_space_is_of_the_precision():
    made = {name: [c.plan.spec for c in Space(shape=LAYER, arch=ARCH, numerics=n).configurations(("mma", "direct"))
                   if c.plan] for name, n in (("default", Numerics.FLOAT32), ("ieee", Numerics.IEEE))}
    assert {s.numerics for s in made["default"]} == {Numerics.FLOAT32, Numerics.TF32X3}
    assert {s.algorithm for s in made["ieee"]} == {"direct"}
    assert len([s for s in made["default"] if s.algorithm == "mma"]) > 100


# ---- the command line

def test_an_emitted_head_says_the_precision_and_gives_the_same_bytes_again():
    for precision in ("tf32x3", "fp16x3", "tf32"):
        text = CliRunner().invoke(cli, ["emit", *FLAGS, "--precision", precision]).stdout
        assert f"--precision {precision}" in text and f"{precision} products" in text
        command = re.search(r"Emit it again with\n((?://.*\\\n)*//.*\n)", text)[1]
        words = re.sub(r"//|\\\n", " ", command).split()[2:]
        assert CliRunner().invoke(cli, ["emit", *words]).stdout == text
    assert "--precision tf32x3" in render(plan_layer(LAYER, arch="sm_80")).text
    assert "--precision fp16x3" in render(plan_layer(LAYER)).text
    assert "--precision" not in render(plan_layer(LAYER, precision="ieee")).text


@pytest.mark.parametrize("words, says", [
    (["--precision", "fp64"], "unknown precision"),
    (["--precision", "tf32", "--accumulate", "float16"], "no kernel sums in float16"),
    (["--precision", "tf32", "--dtype", "float16"], "tf32 products of float16")])
def test_the_command_line_refuses_in_words(words, says):
    result = CliRunner().invoke(cli, ["emit", *FLAGS, *words])
    assert result.exit_code == 2 and says in " ".join(result.output.split())


# ---- calls

@pytest.mark.long
@on_cpu_device
def test_calls_of_different_precision_do_not_share_a_kernel():
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((2, 14, 14, 64)).astype("f4"), rng.standard_normal((32, 64, 3, 3)).astype("f4")
    exact = sum(np.pad(x.astype("f8"), ((0, 0), (1, 1), (1, 1), (0, 0)))[:, r:r + 14, s:s + 14] @ w[:, :, r, s].T
                for r in range(3) for s in range(3))
    errors = {}
    for _ in range(2):          # the second time by the quick way
        for precision in ("float32", "ieee", "tf32x3", "tf32"):
            y = warpconv.conv2d(x, w, padding=1, layout="NHWC", device="cpu", precision=precision)
            errors[precision] = np.linalg.norm(y - exact) / np.linalg.norm(exact)
    assert errors["tf32x3"] < errors["ieee"] < 1e-6 < errors["tf32"] < 1e-3 and errors["float32"] in (
        errors["tf32x3"], errors["ieee"])
    kernel = warpconv.specialize(LAYER, device="cpu", precision="tf32")
    assert kernel.spec.numerics is Numerics.TF32
    kernels = warpconv.specialize_all([LAYER, LAYER.with_batch(1)], device="cpu", precision="ieee")
    assert all(kernel.spec.numerics is Numerics.FLOAT32 for kernel in kernels)
