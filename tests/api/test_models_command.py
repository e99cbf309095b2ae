"""Models on the command line: built, explained, tuned, emitted, and refused in words."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

pytest.importorskip("onnx", reason="onnx (the extra test) is not installed: models cannot be read")

import numpy as np
from onnx import helper

from tests.runtime.models.make import conv, drawn, model, saved
from tests.runtime.pack.pack_tools import use_fake_compiler
from warpconv.cli import cli
from warpconv.runtime.pack.pack import open_pack


def run(*arguments):
    return CliRunner().invoke(cli, list(map(str, arguments)))


def network(deformed=False):
    nodes = [conv(["x", "w", "b"], "a", pads=[1] * 4), helper.make_node("Relu", ["a"], ["r"]),
             conv(["r", "v"], "c", pads=[1] * 4), conv(["c", "v"], "d", op="ConvTranspose")]
    if deformed:
        nodes.append(conv(["d", "w", "o"], "y", op="DeformConv"))
    return model(nodes, {"x": ["batch", 3, 8, 9], "o": [1]}, ["y" if deformed else "d"],
                 {"w": drawn(4, 3, 3, 3), "b": drawn(4), "v": drawn(4, 4, 3, 3)})


@pytest.fixture
def path(tmp_path):
    return saved(network(), tmp_path)


def test_build(path, tmp_path, monkeypatch):
    use_fake_compiler(monkeypatch, tmp_path)
    words = ["build", path, "--dim", "batch=2", "-o", tmp_path / "pack", "--arch", "sm_80,sm_90", "--weights"]
    done = run(*words)
    assert done.exit_code == 0 and "6 built" in done.output, done.output
    pack = open_pack(tmp_path / "pack")
    assert set(pack.nodes()) == {"Conv_a", "Conv_c", "ConvTranspose_d"} and pack.conv("/Conv/a").holds("bias")
    again = run(*words, "--json")
    assert {row["status"] for row in json.loads(again.stdout)["kernels"]} == {"up-to-date"}
    one = run("build", path, "--dim", "batch=2", "--layer", "/Conv/a", "-o", tmp_path / "one", "--arch", "sm_90",
              "--dtype", "float16", "--layout", "nhwc")
    assert one.exit_code == 0, one.output
    (kernel,) = open_pack(tmp_path / "one").kernels()
    assert (kernel.spec.dtype.value, kernel.spec.layout.value, kernel.layers) == ("float16", "NHWC", ("Conv_a",))


def test_explain(path):
    done = run("explain", path, "--dim", "batch=2")
    assert done.exit_code == 0 and "where the time goes" in done.output and "/Conv/a" in done.output
    record = json.loads(run("explain", path, "--dim", "batch=2", "--json").stdout)
    rows = {row["node"]: row for row in record["layers"]}
    assert list(rows) == ["/Conv/a", "/Conv/c", "/ConvTranspose/d"] and rows["/Conv/a"]["epilogue"] == ["bias", "relu"]
    assert record["seconds"] == pytest.approx(sum(row["seconds"] for row in rows.values()))
    assert record["floor_seconds"] == pytest.approx(sum(row["floor_seconds"] for row in rows.values()))
    assert sum(kind["layers"] for kind in record["kinds"]) == 3
    assert sum(kind["seconds"] for kind in record["kinds"]) == pytest.approx(record["seconds"])
    for row in rows.values():
        assert 0 < row["floor_seconds"] <= row["seconds"] and 0 < row["share_of_floor"] <= 1
    two = json.loads(run("explain", path, "--dim", "batch=2", "--arch", "sm_80,sm_90", "--json").stdout)
    assert [one["result"]["arch"] for one in two["results"]] == ["sm_80", "sm_90"]
    one = run("explain", path, "--dim", "batch=2", "--layer", "/Conv/a")
    assert "issue slots" in one.output                      # every algorithm's answer, as for any layer


@pytest.mark.long
def test_a_measured_layer_is_told_with_its_time(path, tmp_path):
    """A database's own time stands in the table, marked."""
    from warpconv.runtime.models.source import read_model
    base = tmp_path / "tuning.json"
    words = ["--dim", "batch=2", "--device", "cpu", "--algorithm", "direct", "--configurations", 1, "--database", base]
    done = run("tune", path, *words)
    assert done.exit_code == 0 and "transposed layers are not measured" in done.output, done.output
    layers = json.loads(base.read_text())["layers"]
    assert len(layers) == 2                                 # the transposed one is not timed
    record = json.loads(run("explain", path, "--dim", "batch=2", "--tuning", base, "--json").stdout)
    assert [row["measured"] for row in record["layers"]] == [True, True, False]
    from warpconv.runtime.tuning.choice import tuning_table
    shape = read_model(path, {"batch": 2})[0].shape
    from warpconv.codegen.hardware import DEFAULT_ARCH
    assert record["layers"][0]["seconds"] == tuning_table(base).seconds(shape, DEFAULT_ARCH)


def test_emit_and_inspect(path, tmp_path):
    done = run("emit", path, "--dim", "batch=2", "-o", f"{tmp_path}/")
    assert done.exit_code == 0, done.output
    assert {file.name for file in tmp_path.glob("*.cu")} == {f"{name}-sm_90.cu" for name in (
        "Conv_a", "Conv_c", "ConvTranspose_d")}
    shown = run("inspect", path, "--dim", "batch=2", "--layer", "Conv_c")
    assert shown.exit_code == 0 and "launch" in shown.output, shown.output


def test_what_is_left_out_is_a_table_and_an_exit_code(tmp_path, monkeypatch):
    use_fake_compiler(monkeypatch, tmp_path)
    path = saved(network(deformed=True), tmp_path)
    for verb in (("build", "-o", tmp_path / "pack", "--arch", "sm_90"), ("explain",)):
        done = run(verb[0], path, "--dim", "batch=2", *verb[1:])
        assert done.exit_code == 1 and "left out" in done.output and "no kernels for DeformConv" in done.output
        told = json.loads(run(verb[0], path, "--dim", "batch=2", *verb[1:], "--json").stdout)["left_out"]
        assert [(row["node"], row["op"]) for row in told] == [("/DeformConv/y", "DeformConv")]
    assert len(open_pack(tmp_path / "pack").nodes()) == 3


@pytest.mark.parametrize("words, told", [
    ((), "leaves sizes open"), (("--dim", "batch"), "NAME=SIZE"), (("--dim", "batch=0"), "at least 1"),
    (("--dim", "batch=-1"), "NAME=SIZE"), (("--dim", "batch=1", "--dim", "batch=2"), "each once"),
    (("--dim", "n=1", "--dim", "batch=1"), "no size of this name"),
    (("--stride", "2"), "a model has its layers' options"), (("--dim", "batch=1", "--layer", "none"), "no such layer"),
    (("--dim", "batch=1", "--dtype", "int8"), "floating-point"), (("--dim", "batch=1", "--layout", "CHWN"), "layout")])
@pytest.mark.parametrize("verb", ["build", "explain"])
def test_bad_use(verb, words, told, path, tmp_path, monkeypatch):
    use_fake_compiler(monkeypatch, tmp_path)
    more = ("-o", tmp_path / "pack", "--arch", "sm_90") if verb == "build" else ()
    done = run(verb, path, *words, *more)
    assert done.exit_code == 2 and told in done.output, done.output
    assert not (tmp_path / "pack").exists()


def test_what_is_no_model(tmp_path, monkeypatch):
    use_fake_compiler(monkeypatch, tmp_path)
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    for name in ("bad.onnx", "none.onnx"):
        for verb, *more in (("build", "-o", tmp_path / "pack", "--arch", "sm_90"), ("explain",),
                            ("tune", "--device", "cpu")):
            done = run(verb, tmp_path / name, *more)
            assert done.exit_code == 2 and "warpconv:" in done.output, done.output
    empty = saved(model([helper.make_node("Relu", ["x"], ["y"])], {"x": [1, 3, 8, 9]}, ["y"],
                        {"w": np.ones(1, "f")}), tmp_path)
    done = run("build", empty, "-o", tmp_path / "pack", "--arch", "sm_90")
    assert done.exit_code == 2 and "no convolution" in done.output
    done = run("explain", "--input", "1,3,8,8", "--filter", "4,3,3", "--dim", "batch=1")
    assert done.exit_code == 2 and "no model" in done.output
    done = run("explain", "twelve_layers", "--dim", "batch=1")
    assert done.exit_code == 2 and "for models" in done.output


def test_a_full_disk(path, tmp_path, monkeypatch):
    import errno
    from pathlib import Path
    use_fake_compiler(monkeypatch, tmp_path)

    def full(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        done = run("build", path, "--dim", "batch=2", "-o", tmp_path / "pack", "--arch", "sm_90", "--weights")
    assert done.exit_code == 1 and "No space left" in done.output
    assert not (tmp_path / "pack" / "manifest.json").exists()
