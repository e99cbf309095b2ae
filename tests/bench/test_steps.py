"""The study of steps, end to end on the CPU device."""

import pytest

import bench.__main__ as main
from bench.devices import HostDevice
from bench.studies import steps


@pytest.mark.long
def test_every_step_is_measured_and_shown(tmp_path):
    made = main.run(steps.STUDY, tmp_path, quick=True, device=HostDevice())
    assert made.rows["ceiling/sgemm"]["status"] == "skipped: no GPU"
    for step in steps.STEPS:
        row = made.rows[f"3x3/{step.label}"]
        assert row["status"] == "ok" and row["algorithm"] == step.algorithm and row["of_copy"] > 0
        assert step.settings_of(3).items() <= row["settings"].items()
    assert "## 3x3" in (tmp_path / "README.md").read_text()


def test_gain_is_the_time_of_the_line_above_over_its_own():
    times = [2.0 ** -i for i in range(len(steps.STEPS))]
    rows = {f"5x5/{step.label}": {"filter": 5, "status": "ok", "ms": ms}
            for step, ms in zip(steps.STEPS, times, strict=True)}
    shown = steps.tables(rows)[0].rows
    assert shown[0][-1] is None and all(line[-1] == 2.0 for line in shown[1:])
