"""The study of regret: picks of today against times that other studies have measured."""

import json

import pytest

import bench.__main__ as main
from bench.studies import regret
from bench.studies.contest import shape_fields
from tests.bench.fakes import FakeDevice
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import explain
from warpconv.codegen.shape import ConvShape

SHAPE = ConvShape(c=1, h=64, w=64, k=1, r=3, s=3, padding="same")
PICK = explain(SHAPE)[0]
OTHER = next(name for name in ALGORITHMS if name != PICK.algorithm)


def layer(key, pick_ms, other_ms, **more):
    return {"key": key, "run": 0, "status": "ok", "chosen": OTHER, **shape_fields(SHAPE),
            f"{PICK.algorithm}_ms": pick_ms, f"{PICK.algorithm}_settings": PICK.plan.settings(),
            f"{OTHER}_ms": other_ms, "peer_ms": 1e-9, **more}


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(regret, "RESULTS", tmp_path / "results")

    def put(study, rows):
        folder = tmp_path / "results" / study
        folder.mkdir(parents=True)
        (folder / f"{study}.json").write_text(json.dumps({"schema": 1, "study": study, "runs": [{"arch": "sm_90"}],
                                                          "rows": rows}))
    return put


def run(tmp_path):
    return main.run(regret.STUDY, tmp_path / "out", device=FakeDevice())


def test_shares_regrets_and_missing_studies(tmp_path, results):
    ceiling = {"key": "ceiling/copy", "run": 0, "status": "ok", "kind": "ceiling", "gbs": 1.0}
    results("planes", [ceiling, layer("near", 1.05, 1.0), layer("best", 1.0, 2.0)])
    results("select", [layer("far", 3.0, 1.5)])
    rows = run(tmp_path).rows
    assert rows["planes/near"]["ratio"] == pytest.approx(1.05) and rows["select/far"]["ratio"] == pytest.approx(2.0)
    assert rows["planes/best"]["quickest"] == PICK.algorithm and "planes/ceiling/copy" not in rows
    assert rows["twelve_layers"]["status"].startswith("skipped: docs/results/twelve_layers")
    made = regret.tables(rows)
    shares = {line[0]: line for line in made[0].rows}
    assert shares["planes"][1:7] == (2, 2, 2, 1.0, 0.9, True)
    assert shares["all"][1:5] == (3, 3, 2, pytest.approx(2 / 3))
    assert shares["all"][6] is False and shares["all"][7] == 2.0
    assert shares["twelve_layers"][4] is None and "paper_layers, twelve_layers" in made[0].text
    assert made[1].rows == ((PICK.algorithm, OTHER, 1, pytest.approx(2.0)),)
    assert [line[1] for line in made[2].rows] == ["far", "near", "best"]
    assert (tmp_path / "out" / "regret.svg").exists()


def test_a_study_with_a_row_for_each_algorithm_is_read_by_planes(tmp_path, results):
    common = {"run": 0, "kind": "ours", "size": 64, "filter": 3, "settings": {}}
    results("planes", [
        {"key": "a", "status": "ok", "name": PICK.algorithm, "ms": 3.0, **common},
        {"key": "b", "status": "ok", "name": OTHER, "ms": 2.0, **common},
        {"key": "c", "status": "declined: no", "name": "direct" if OTHER != "direct" else "reuse", **common},
        {"key": "d", "status": "ok", "name": "cuDNN", "ms": 0.1, **common, "kind": "peer"}])
    rows = run(tmp_path).rows
    row = rows["planes/3x3/64"]
    assert row["ratio"] == pytest.approx(1.5) and row["algorithms_timed"] == 2 and row["layer"] == str(SHAPE)


def test_what_cannot_be_judged_says_why(tmp_path, results):
    old = {key: value for key, value in layer("old", 1.0, 1.0).items() if key != "shape"}
    new = {key: value for key, value in layer("new", 1.0, 1.0).items() if not key.startswith(f"{PICK.algorithm}_")}
    results("select", [old, new, layer("bad", 1.0, 1.0, status="failed: x"),
                       new | {"key": "gone", f"{PICK.algorithm}_reason": "WRONG: 3"},
                       layer("torn", 1.0, 1.0, shape={"n": 1})])
    rows = run(tmp_path).rows
    status = {key.removeprefix("select/"): row["status"] for key, row in rows.items()}
    assert "run the study again" in status["old"] and "older than the algorithm" in status["new"]
    assert "failed: x" in status["bad"] and "WRONG: 3" in status["gone"] and "cannot be read" in status["torn"]
    shares = {line[0]: line for line in regret.tables(rows)[0].rows}
    assert shares["select"][1:5] == (5, 0, 0, None)


def test_values_that_are_no_longer_the_defaults_are_marked(tmp_path, results):
    changed = dict(PICK.plan.settings())
    changed[next(iter(changed))] = "of another time"
    results("select", [layer("a", 1.0, 1.0), layer("b", 1.0, 1.0, **{f"{PICK.algorithm}_settings": changed})])
    rows = run(tmp_path).rows
    assert (rows["select/a"]["values_differ"], rows["select/b"]["values_differ"]) == (False, True)


def test_it_is_worked_out_anew_each_time(tmp_path, results):
    results("select", [layer("a", 1.0, 1.0)])
    run(tmp_path)
    path = tmp_path / "results" / "select" / "select.json"
    path.write_text(path.read_text().replace('"key": "a"', '"key": "b"'))
    assert "select/b" in run(tmp_path).rows and "select/a" not in run(tmp_path).rows
