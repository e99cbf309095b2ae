"""``--source``: an emitted text that was edited, run and counted on the CPU device."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.api.test_cli import good, run

LAYER = ["--input", "1,1,40,50", "--filter", "1,3,3", "--padding", "1", "--algorithm", "direct"]


@pytest.fixture
def source(tmp_path):
    """A text as it is emitted, and arrays for it."""
    path = tmp_path / "kernel.cu"
    good("emit", *LAYER, "-o", path)
    np.save(tmp_path / "x.npy", np.ones((1, 1, 40, 50), np.float32))
    np.save(tmp_path / "w.npy", np.ones((1, 1, 3, 3), np.float32))
    return path


def edit(path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, text
    path.write_text(text.replace(old, new))


def run_source(path, *more):
    folder = path.parent
    return run("run", folder / "x.npy", folder / "w.npy", "-o", folder / "y.npy", "--device", "cpu", "--source", path,
               *more)


def test_a_text_as_it_was_emitted_is_counted_as_its_plan(source):
    told = json.loads(good("inspect", "--source", source, "--json"))
    plain = json.loads(good("inspect", *LAYER, "--json"))
    assert told["changed_lines"] == 0 and plain["changed_lines"] is None
    assert told["measured"]["units"] == plain["measured"]["units"] != []
    assert told["source"] == plain["source"] and told["values"] == plain["values"]


def test_an_edit_changes_the_result_and_is_told(source):
    edit(source, "y_pixel[0] = acc_k0;", "y_pixel[0] = 2.0f * acc_k0;")
    result = run_source(source, "--json")
    assert result.exit_code == 0, result.output
    counts = json.loads(result.stdout)["counts"]
    assert np.load(source.parent / "y.npy")[0, 0, 5, 5] == 18
    rows = {row["buffer"]: row for row in counts["buffers"]}
    assert rows["x"]["load_requests"] > 0 and rows["y"]["store_requests"] == 80
    assert "y" in run_source(source).stdout
    assert run_source(source, "--check").exit_code == 1
    told = json.loads(good("inspect", "--source", source, "--json"))
    assert told["changed_lines"] == 1 and told["measured"]["worst_ratio"] > 1


def test_without_its_head_the_options_say_the_layer(source):
    lines = source.read_text().splitlines(keepends=True)
    while lines[0].startswith("//"):
        del lines[0]
    source.write_text("".join(lines))
    result = run_source(source, "--padding", "1", "--algorithm", "direct")
    assert result.exit_code == 0, result.output
    assert np.load(source.parent / "y.npy")[0, 0, 0, 0] == 4
    refused = run("inspect", "--source", source)
    assert refused.exit_code == 2 and "--input" in refused.stderr


def test_an_access_outside_is_a_fault_and_no_crash(source):
    edit(source, "y_pixel[0] =", "y_pixel[1 << 20] =")
    result = run_source(source)
    assert result.exit_code == 1 and "write of buffer 'y' at element" in result.stderr
    assert not (source.parent / "y.npy").exists()


def test_inline_assembly_is_one_clear_error(source):
    edit(source, "y_pixel[0] =", 'asm volatile("membar.gl;" ::: "memory"); y_pixel[0] =')
    number = next(n for n, line in enumerate(source.read_text().splitlines(), 1) if "membar" in line)
    for result in (run_source(source), run("inspect", "--source", source)):
        assert result.exit_code == 1 and result.stderr.count("\n") == 1
        assert f"inline PTX in line {number} of the text" in result.stderr
        assert "templates/parts/primitives.cuh.jinja" in result.stderr


def test_assembly_in_comments_and_names_is_none(source):
    edit(source, "y_pixel[0] =", "/* asm volatile */ y_pixel[0] =")
    source.write_text(source.read_text() + "// asm(x)\n")
    assert run_source(source).exit_code == 0


@pytest.mark.parametrize("old, new, says", [
    ("direct_3x3(", "other_3x3(", "no kernel direct_3x3"),
    ("warpconv emit", "warpconv email", "it is not warpconv emit"),
    ("--padding", "--pudding", "--pudding"),
])
def test_mistakes(source, old, new, says):
    source.write_text(source.read_text().replace(old, new))
    result = run_source(source)
    assert result.exit_code == 2 and says in result.stderr


def test_no_text(tmp_path):
    result = run("inspect", "--source", tmp_path / "no.cu")
    assert result.exit_code == 2 and "No such file" in result.stderr


def test_the_value_of_a_border_is_asked_for(tmp_path):
    """It is an argument of the kernel; the one in the text's head is an example."""
    path = tmp_path / "kernel.cu"
    good("emit", *LAYER, "--padding-mode", "constant", "--padding-value", "0.5", "-o", path)
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 40, 50), np.float32))
    np.save(tmp_path / "w.npy", np.ones((1, 1, 3, 3), np.float32))
    refused = run_source(path)
    assert refused.exit_code == 2 and "--padding-value" in refused.stderr and "0.5" in refused.stderr
    assert run_source(path, "--padding-value", "0.5").exit_code == 0
    assert np.load(tmp_path / "y.npy")[0, 0, 0, 0] == 2.5


def test_a_bias_for_a_text_without_one_is_refused(tmp_path):
    source = tmp_path / "text.cu"
    source.write_text(good("emit", "--input", "1,2,8,9", "--filter", "3,3,2", "--algorithm", "direct"))
    for name, sizes in (("x", (1, 2, 8, 9)), ("w", (3, 2, 3, 2)), ("b", (3,))):
        np.save(tmp_path / f"{name}.npy", np.zeros(sizes, np.float32))
    made = run("run", *(tmp_path / f"{name}.npy" for name in "xwb"), "-o", tmp_path / "y.npy", "--source", source,
               "--device", "cpu")
    assert made.exit_code == 2 and "without a bias" in made.output and not (tmp_path / "y.npy").exists()
