"""What the studies keep: rows, files, resuming, and the record of what they ran on."""

import json
import xml.dom.minidom

import pytest

from bench import harness, study
from bench.devices import HostDevice, NoDevice
from bench.report import environment, files as report
from tests.bench.fakes import FakeDevice, open_report


# ---- report

def test_rows_are_on_the_disk_at_once_and_resumed(tmp_path):
    context = study.Context(FakeDevice(), open_report(tmp_path))
    context.row("a", lambda: {"ms": 1.0}, size=3)
    context.row("b", lambda: (_ for _ in ()).throw(NoDevice("not here")))
    assert json.loads((tmp_path / "demo.json").read_text())["rows"][0] == {
        "key": "a", "run": 0, "status": "ok", "size": 3, "ms": 1.0}
    again = study.Context(FakeDevice(), open_report(tmp_path))
    assert again.row("a", lambda: pytest.fail("measured twice"))["ms"] == 1.0
    assert again.row("b", lambda: {"ms": 2.0}) == {"key": "b", "run": 1, "status": "ok", "ms": 2.0}
    assert open_report(tmp_path, fresh=True).rows == {}


@pytest.mark.parametrize("error, status", [(NoDevice("gone"), "skipped: gone"), (harness.WrongResult("2"), "WRONG: 2"),
                                           (KeyError("x"), "failed: KeyError: 'x'")])
def test_what_goes_wrong_is_the_rows_status(tmp_path, error, status):
    def fail():
        raise error
    assert study.Context(FakeDevice(), open_report(tmp_path)).row("a", fail)["status"] == status


def test_a_lost_device_stops_the_study(tmp_path):
    class Lost(FakeDevice):
        def synchronize(self):
            raise RuntimeError("illegal address")
    with pytest.raises(study.Stopped, match="ValueError.*illegal address"):
        study.Context(Lost(), open_report(tmp_path)).row("a", lambda: int("x"))


def test_four_files_are_written(tmp_path):
    made = open_report(tmp_path)
    made.add("a", {"status": "ok", "ms": 0.123456, "values": {"x": 1}})
    made.add("b|c", {"status": "skipped: no NPP"})
    table = report.Table("Times", ("row", "ms", "empty"), (("a|b", 0.123456, None), ("c", 1234.5, None)))
    paths = made.write("What it is.", [table], {"": lambda figure: figure.add_subplot().plot([1, 2])})
    assert [p.name for p in paths] == ["demo.json", "demo.csv", "README.md", "demo.svg"]
    text = paths[2].read_text()
    assert "| a\\|b | 0.123 | - |" in text and "| c | 1234 | - |" in text and "|:--|--:|--:|" in text
    assert "- b|c: skipped: no NPP" in text and "![demo](demo.svg)" in text and "`python -m bench demo`" in text
    assert xml.dom.minidom.parse(str(paths[3])).documentElement.tagName == "svg"
    assert paths[1].read_text().splitlines()[0] == "key,run,status,ms,values"


def test_many_rows_with_one_reason_are_told_in_one_line(tmp_path):
    made = open_report(tmp_path)
    for i in range(report.LISTED + 3):
        made.add(f"row{i}", {"status": "skipped: no ncu"})
    made.add("other", {"status": "failed: x"})
    text = made.write("", [])[2].read_text()
    assert "row0, row1, " in text and f"row{report.LISTED - 1} and 3 more: skipped: no ncu" in text
    assert "- other: failed: x" in text


def test_a_report_of_another_study_is_refused(tmp_path):
    (tmp_path / "demo.json").write_text('{"schema": 1, "study": "other", "rows": [], "runs": []}')
    with pytest.raises(ValueError, match="fresh"):
        open_report(tmp_path)


# ---- environment

def test_environment_without_a_gpu_is_complete_and_has_no_path(monkeypatch):
    monkeypatch.setattr(environment.shutil, "which", lambda name: None)
    found = environment.record(HostDevice(), ["variants", "-o", "/some/where", "--quick"])
    assert found["command"] == "python -m bench variants --quick"
    assert found["clocks_before"] is None and found["commit"] is None and "numpy" in found["versions"]
    assert str(environment.ROOT) not in json.dumps(found)
    assert any("CPU device" in line for line in environment.describe(found))


def test_nvidia_smi_line():
    found = environment.parse_smi("NVIDIA H200, 580.159.03, 143771 MiB, 345 MHz, 3201 MHz, 1980 MHz, 31, 76.1 W\n")
    assert (found["driver_version"], found["clocks.sm"]) == ("580.159.03", "345 MHz")
    with pytest.raises(ValueError):
        environment.parse_smi("a, b")
