"""The command line for layers files, several architectures, and plan values side by side."""

from __future__ import annotations

import json

import pytest

from tests.api.test_cli import LAYER, good, run
from warpconv.runtime.layers import read_layers

FILE = """
[layer.first]
input = [1, 1, 64, 64]
filter = [1, 5, 5]
algorithm = "reuse"
epilogue = ["relu"]

[layer.second]
input = [1, 2, 32, 32]
filter = [2, 3, 3]
stride = 2
"""
REUSE = [*LAYER, "--algorithm", "reuse"]


@pytest.fixture
def layers(tmp_path):
    path = tmp_path / "layers.toml"
    path.write_text(FILE)
    return path


def results(*arguments) -> list[dict]:
    return json.loads(good(*arguments, "--json"))["results"]


def test_a_file_gives_an_answer_for_each_layer(layers):
    rows = results("explain", layers)
    assert [row["name"] for row in rows] == ["first", "second"]
    assert [row["result"]["chosen"] for row in rows][0] == "reuse"
    assert [row["result"]["layer"] for row in rows] == [str(layer.shape) for layer in read_layers(layers)]
    text = good("explain", layers)
    assert "first: x[1, 1, 64, 64]" in text and "second: x[1, 2, 32, 32]" in text
    rows = results("inspect", layers, "--no-measure", "--no-source")
    assert [row["result"]["algorithm"] for row in rows][0] == "reuse" and rows[0]["name"] == "first"


def test_one_layer_of_a_file_is_answered_as_if_it_stood_in_options(layers):
    alone = json.loads(good("explain", layers, "--layer", "second", "--json"))
    assert alone == json.loads(good("explain", "--input", "1,2,32,32", "--filter", "2,3,3", "--stride", "2", "--json"))
    as_json = layers.with_suffix(".json")
    as_json.write_text(json.dumps({"layer": {"second": {"input": [1, 2, 32, 32], "filter": [2, 3, 3], "stride": 2}}}))
    assert json.loads(good("explain", as_json, "--layer", "second", "--json")) == alone
    assert good("emit", layers, "--layer", "first") == good(
        "emit", "--input", "1,1,64,64", "--filter", "1,5,5", "--algorithm", "reuse", "--epilogue", "relu")


@pytest.mark.long
def test_shipped_names_are_files(layers):
    record = json.loads(good("inspect", "twelve_layers", "--layer", "conv1", "--no-measure", "--no-source", "--json"))
    assert record["layer"] == str(read_layers("twelve_layers")[0].shape)


def test_algorithm_and_values_stand_in_place_of_the_files(layers):
    record = json.loads(good("inspect", layers, "--layer", "first", "--algorithm", "direct", "--no-measure", "--json"))
    assert record["algorithm"] == "direct" and "--epilogue relu" in record["source"]


def test_a_layer_that_is_declined_does_not_hold_up_the_others(layers):
    result = run("inspect", layers, "--algorithm", "reuse", "--no-measure", "--no-source", "--json")
    first, second = json.loads(result.stdout)["results"]
    assert result.exit_code == 1 and first["result"]["algorithm"] == "reuse" and second["result"] is None
    assert "stride" in second["reason"]


@pytest.mark.parametrize("arguments, says", [
    (["explain", "FILE", "--layer", "third"], "it has first, second"),
    (["explain", "FILE", "--padding", "1"], "(--padding)"),
    (["explain", *LAYER, "--layer", "first"], "no LAYERS file"),
    (["build", *LAYER, "--layer", "first", "-o", "pack", "--arch", "sm_90"], "no LAYERS file"),
    (["emit", "FILE", "-o", "k.cu"], "several sources go to a folder"),
    (["emit", *LAYER, "--arch", "sm_80,sm_9x"], "sm_9x"),
    (["emit", *REUSE, "--set", "exchange=select,packed"], "warpconv inspect"),
    (["build", *REUSE, "--set", "exchange=select,packed", "--arch", "sm_90", "-o", "pack"], "warpconv inspect"),
    (["inspect", *REUSE, "--set", "exchange=select,round"], "round"),
    (["inspect", *REUSE, "--set", "exchange=round,square"], "round"),
    (["inspect", *REUSE, "--set", "k_tile=1..64", "--set", "warp_rows=1..8"], "more than 64 combinations"),
])
def test_mistakes(arguments, says, layers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*(str(layers) if word == "FILE" else word for word in arguments))
    assert says in result.output
    assert result.exit_code == (0 if "exchange=select,round" in arguments else 2)
    assert [path.name for path in tmp_path.iterdir()] == ["layers.toml"]


def test_a_file_of_one_layer_has_one_source(tmp_path):
    (tmp_path / "one.toml").write_text(FILE.partition("[layer.second]")[0])
    good("emit", tmp_path / "one.toml", "-o", tmp_path / "a.cu")
    assert "extern" in (tmp_path / "a.cu").read_text()


@pytest.mark.long
def test_several_architectures(tmp_path):
    texts = [good("emit", *LAYER, "--arch", arch) for arch in ("sm_80", "sm_90")]
    assert good("emit", *LAYER, "--arch", "sm_80,sm_90") == "\n".join(texts)
    assert good("emit", *LAYER, "--arch", "sm_80", "--arch", "sm_90") == "\n".join(texts)
    assert good("emit", *LAYER, "--arch", "sm_80,sm_90", "-o", f"{tmp_path}/made/") == ""
    files = sorted((tmp_path / "made").iterdir(), key=lambda path: path.stem[-2:])
    assert [path.read_text() for path in files] == texts and [path.stem[-6:] for path in files] == ["-sm_80", "-sm_90"]
    rows = results("inspect", *LAYER, "--arch", "sm_80,sm_90", "--no-measure", "--no-source")
    assert [row["result"]["arch"] for row in rows] == ["sm_80", "sm_90"]
    assert [row["result"]["arch"] for row in results("explain", *LAYER, "--arch", "sm_80,sm_90")] == ["sm_80", "sm_90"]


@pytest.mark.nvcc
def test_build_takes_several_architectures_and_one_layer(layers, tmp_path):
    record = json.loads(good("build", layers, "--layer", "second", "--arch", "sm_80,sm_90", "-o", tmp_path / "pack",
                             "--json"))
    assert [(row["name"], row["arch"]) for row in record["kernels"]] == [("second", "sm_80"), ("second", "sm_90")]


@pytest.mark.parametrize("verb", ["inspect", "explain"])
def test_plans_stand_side_by_side(verb):
    record = json.loads(good(verb, *REUSE, "--set", "exchange=none,select", "--set", "k_tile=1", "--json"))
    assert [row["settings"]["exchange"] for row in record["plans"]] == ["none", "select"]
    none, select = (row["cost"] for row in record["plans"])
    assert none["shuffles"] == 0 < select["shuffles"] and none["warp_loads"] > select["warp_loads"]
    alone = json.loads(good("inspect", *REUSE, "--set", "exchange=select", "--no-measure", "--json"))
    assert (alone["plan"], alone["cost"]) == (record["plans"][1]["plan"], select)
    text = good(verb, *REUSE, "--set", "exchange=none,select")
    assert "exchange=none" in text and "registers, planned" in text and "k_tile=" not in text


def test_a_combination_that_is_declined_says_why():
    record = json.loads(good("inspect", *REUSE, "--set", "exchange=select,round", "--json"))
    assert record["plans"][0]["plan"] and record["plans"][1]["plan"] is None
    assert "round" in record["plans"][1]["reason"]


@pytest.mark.nvcc
@pytest.mark.parametrize("name", ["pack", "pack.zip"])
def test_a_pack_is_listed(name, layers, tmp_path):
    built = json.loads(good("build", layers, "--arch", "sm_80,sm_90+PTX", "-o", tmp_path / name, "--json"))["kernels"]
    record = json.loads(good("pack", "list", tmp_path / name, "--json"))
    assert record["schema"] == 1 and record["generator"]
    found = {(row["layers"][0], row["arch"]): row for row in record["kernels"]}
    assert set(found) == {(layer, arch) for layer in ("first", "second") for arch in ("sm_80", "sm_90")}
    assert {key: row["ptx"] for key, row in found.items()} == {key: key[1] == "sm_90" for key in found}
    row = found["first", "sm_90"]
    assert row["algorithm"] == "reuse" and row["epilogue"] == ["relu"] and row["settings"]["exchange"]
    sizes = {(one["name"], one["arch"].removesuffix("+PTX")): (one["bytes"], one["registers"]) for one in built}
    assert {key: (row["bytes"], row["registers"]) for key, row in found.items()} == sizes
    text = " ".join(good("pack", "list", tmp_path / name).split())
    assert "relu" in text and "sm_90 + PTX" in text and "4 kernels" in text


def test_what_is_no_pack_is_not_listed(tmp_path):
    result = run("pack", "list", tmp_path)
    assert result.exit_code == 1 and "manifest.json" in result.stderr and result.stdout == ""
