"""The study of filter as a command, end to end on a small photograph."""

import pytest

import bench.__main__ as main
from bench.devices import HostDevice
from bench.studies import filter_command


@pytest.mark.long
def test_every_row_is_measured_and_judged(tmp_path):
    made = main.run(filter_command.STUDY, tmp_path, quick=True, device=HostDevice())
    assert {row["status"] for row in made.rows.values()} == {"ok"}
    assert made.rows.keys() == {"agreement", *(case.key for case in filter_command.CASES)}
    assert made.rows["agreement"]["pixels"] > 100_000
    for case in filter_command.CASES:
        row = made.rows[case.key]
        assert row["seconds"] >= row["least"] > 0 and row["processor"] > 0
        assert (row["algorithm"] is None) == bool(case.script)
    text = (tmp_path / "README.md").read_text()
    assert "| 5x5, cold |" in text and "| Pillow 5x5 |" in text


def test_only_the_row_that_a_target_is_for_is_judged():
    row = {"key": "5x5", "status": "ok", "kind": "row", "seconds": 3.5, "least": 3.0, "processor": 4.0, "call": 1.0,
           "algorithm": "wide", "load": 1.0, "must": filter_command.MUST}
    lines = filter_command.tables({"a": row, "b": {**row, "must": None}})[0].rows
    assert [line[-2:] for line in lines] == [("yes", "no"), (None, None)]
