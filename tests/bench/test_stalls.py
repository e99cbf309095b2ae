"""Stall reasons from ncu's CSV, and what ncu is asked to watch."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from bench.counters import ncu, stalls as ncu_stalls, target as ncu_target
from bench.report.files import markdown_table
from warpconv.runtime.arrays.elements import values

TOLD = [json.dumps({"case": i, "kernel": name, "entries": [name], "preparation": 0}) for i, name in enumerate("ab")]
CSV = "\n".join(['==PROF== Connected', *TOLD, '"ID","Kernel Name","Metric Name","Metric Value"',
                 '"0","a","gpu__time_duration.sum","1,234"',
                 f'"0","a","{ncu_stalls.STALLS["wait"]}","0.5"', f'"0","a","{ncu_stalls.STALLS["lg_throttle"]}","2.25"',
                 '"1","b","launch__registers_per_thread","n/a"'])


def test_launches_are_kept_apart_and_stalls_sorted():
    first, second = ncu_stalls.parse(CSV)
    assert first["duration_ns"] == 1234 and list(first["stalls"].items()) == [("lg_throttle", 2.25), ("wait", 0.5)]
    assert second == {"stalls": {}}
    assert ncu_stalls.parse("no CSV") == []
    shown = "\n".join(markdown_table(ncu_stalls.table([{"kernel": "wide", "entry": "wide_3x3", **first}])))
    assert "lg_throttle 2.25, wait 0.50" in shown


def fake_ncu(monkeypatch, answers):
    """ncu that gives these texts one after the other; the command lines that it was asked with."""
    asked = []

    def run(words, **options):
        asked.append(words)
        return SimpleNamespace(stdout=answers[len(asked) - 1], stderr="")

    monkeypatch.setattr(ncu, "find", lambda: "ncu")
    monkeypatch.setattr(ncu.subprocess, "run", run)
    return asked


def test_each_launch_is_a_row_and_unknown_metrics_are_left_out(monkeypatch, tmp_path):
    unknown = ncu_stalls.METRICS["tensor_pct"]
    asked = fake_ncu(monkeypatch, [f"==ERROR== Failed to find metric {unknown}", CSV])
    done = CliRunner().invoke(ncu_stalls.main, ["--kernel", "wide", "--kernel", "auto", "--channels", "64", "--dtype",
                                                "float16", "--layout", "NHWC", "-o", str(tmp_path / "x.json")])
    assert done.exit_code == 0, done.output
    assert unknown in " ".join(asked[0]) and unknown not in " ".join(asked[1])
    target = asked[1][asked[1].index("bench.counters.target") + 1:]
    assert ncu_target.main.make_context("ncu_target", list(target)).params["channels"] == 64
    first, second = json.loads((tmp_path / "x.json").read_text())
    assert (first["kernel"], first["dtype"], second["kernel"]) == ("wide", "float16", "auto")
    assert (first["entry"], second["entry"]) == ("a", "b")
    assert "lg_throttle 2.25" in (tmp_path / "x.md").read_text()


def test_launches_that_are_missing_are_an_error_with_ncus_words(monkeypatch, tmp_path):
    fake_ncu(monkeypatch, ["==ERROR== no permission"])
    done = CliRunner().invoke(ncu_stalls.main, ["--kernel", "wide", "-o", str(tmp_path / "x.json")])
    assert done.exit_code == 1 and "no permission" in done.output and not (tmp_path / "x.json").exists()


@pytest.mark.parametrize("dtype", ncu_target.DTYPES)
@pytest.mark.parametrize("layout", ncu_target.LAYOUTS)
@pytest.mark.thin(3)
def test_every_kind_of_layer_can_be_watched(dtype, layout):
    done = CliRunner().invoke(ncu_target.main, ["--kernel", "auto", "--size", "9", "--filter", "3", "--channels", "8",
                                                "--dtype", dtype, "--layout", layout, "--device", "cpu"])
    assert done.exit_code == 0, done.output
    shape = ncu_target.shape_of(9, 3, channels=8, dtype=dtype, layout=layout)
    x, w = (values(array, shape.dtype).astype(float) for array in ncu_target.data(shape))
    x = x if layout == "NCHW" else x.transpose(0, 3, 1, 2)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    wanted = sum((padded[0, :, r:r + 9, s:s + 9] * w[:, 0, r, s, None, None]).sum() for r in range(3) for s in range(3))
    assert json.loads(done.output)["sum"] == pytest.approx(wanted, rel=2e-3)
