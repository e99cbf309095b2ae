"""The study intensity: the slides' table from plans, the order of their kernels, and counters beside it."""

import json

import pytest

import bench.__main__ as main
from bench.counters import ncu, stalls as ncu_stalls
from bench.devices import HostDevice
from bench.studies import intensity
from tests.bench.fakes import FakeDevice


def test_halves_are_rounded_up_as_the_slides_print_them():
    shown = [intensity.half_up(value) for value in (3.125, 7.03125, 10.125, 40.5, None)]
    assert shown == ["3.13", "7.03", "10.13", "40.50", "-"]


@pytest.mark.long
def test_the_slides_table_follows_from_the_plans(tmp_path):
    found = main.run(intensity.STUDY, tmp_path, quick=True, device=FakeDevice())
    assert found.rows["table/5x5/8"]["intensity"] == 3.125 and found.rows["table/9x9/32"]["bound"] == 40.5
    assert found.rows["table/9x9/8"]["status"].startswith("declined: ")
    text = (tmp_path / "README.md").read_text()
    assert "| 5x5 | 4, 12, 28 | 3.13 | 7.03 | 9.57 | 12.50 | equal |" in text
    assert "| 9x9 | -, 8, 24 | - | 10.13 | 22.78 | 40.50 | equal |" in text
    for name in intensity.SLIDES + intensity.BESIDE:
        row = found.rows[f"5x5/{name}"]
        assert row["status"] == "ok" and row["tflops"] > 0
        assert (row["slide_intensity"] is None) == (name in intensity.BESIDE)
    assert found.rows["5x5/naive"]["slide_intensity"] == 0.25 and found.rows["5x5/constant"]["slide_intensity"] == 0.5
    assert found.rows["ncu/5x5/naive"]["status"] == "skipped: no GPU" and (tmp_path / "intensity.svg").exists()


def test_another_figure_is_told():
    rows = {f"table/5x5/{tile}": {"key": "", "status": "ok", "intensity": value, "bound": 12.5}
            for tile, value in zip(intensity.TILES, (3.125, 7.03125, 9.0))}
    line = intensity.tables(rows)[0].rows[0]
    assert line[2:6] == ("3.13", "7.03", "9.00", "12.50") and line[6].startswith("differs from 3.13, 7.03, 9.57")


def measured(times):
    return {f"5x5/{name}": {"key": f"5x5/{name}", "status": "ok", "kind": "measured", "filter": 5, "name": name,
                            "ms": ms, "gbs": 1.0, "tflops": 1.0, "intensity": 6.0, "slide_intensity": 0.5,
                            "settings": {"tile": 16}} for name, ms in times.items()}


def counters(name, **values):
    key = f"ncu/5x5/{name}"
    return {key: {"key": key, "status": "ok", "kind": "ncu", "filter": 5, "name": name,
                  "stalls": {"wait": 2.0, "barrier": 1.0}, **values}}


def test_a_step_back_is_explained_by_the_counters():
    rows = measured(dict(zip(intensity.SLIDES, (8.0, 4.0, 5.0, 2.0))))
    rows |= counters("constant", l1_hit_pct=90.0, load_sectors=2e6)
    rows |= counters("tiled", l1_hit_pct=40.0, load_sectors=1e6)
    tables = {table.title: table for table in intensity.tables(rows)}
    steps = {line[0]: line[1:] for line in tables["5x5: order"].rows}
    assert steps["naive -> constant"] == (2.0, True, "") and steps["tiled -> halo_cached"][:2] == (2.5, True)
    gain, expected, why = steps["constant -> tiled"]
    assert (gain, expected) == (0.8, False) and "L1 hits 90 -> 40 %" in why and "sectors loaded 2 -> 1 million" in why
    assert "warps wait for wait 2.00, barrier 1.00 -> wait 2.00" in why
    assert steps["halo_cached -> coarsened"] == (None, None, "not measured")
    assert [line[0] for line in tables["5x5: counters"].rows] == ["constant", "tiled"]


def test_counters_are_asked_for_what_gave_a_right_result(tmp_path, monkeypatch):
    asked = []

    def watch(target, metrics):
        kernels = [json.loads(word) for word in target if word.startswith("{")]
        asked.append([(case["kernel"], case["size"]) for case in kernels])
        values = dict.fromkeys(metrics, 3.0)
        return [ncu.Watched(({"entry": "e", **values},) * (2 if case["kernel"] == "wide" else 1)) for case in kernels]

    monkeypatch.setattr(intensity, "SLIDES", ("direct",))
    monkeypatch.setattr(intensity, "BESIDE", ("reuse", "wide"))
    monkeypatch.setattr(intensity, "slide_intensity", lambda plan: None)
    monkeypatch.setattr(intensity.ncu, "watch", watch)
    monkeypatch.setattr(intensity.peers, "gemm_ceiling", lambda device: {"tflops": 50.0})
    monkeypatch.setattr(FakeDevice, "kind", "fake")
    found = main.run(intensity.STUDY, tmp_path, quick=True, device=FakeDevice())
    assert asked == [[(name, intensity.SIZE) for name in ("direct", "reuse", "wide")]]
    direct = found.rows["ncu/5x5/direct"]
    assert direct["l2_hit_pct"] == 3.0 and set(direct["stalls"]) == set(ncu_stalls.STALLS)
    assert found.rows["ncu/5x5/wide"]["status"] == "failed: RuntimeError: 2 launches instead of one"


@pytest.mark.thin(2)
@pytest.mark.parametrize("error, status", [(ncu.NoDevice("no permission"), "skipped: no permission"),
                                           (OSError("broken"), "failed: OSError: broken")])
def test_without_counters_the_times_stay(tmp_path, monkeypatch, error, status):
    def refuse(target, metrics):
        raise error
    monkeypatch.setattr(intensity, "SLIDES", ("direct",))
    monkeypatch.setattr(intensity, "BESIDE", ())
    monkeypatch.setattr(intensity, "slide_intensity", lambda plan: None)
    monkeypatch.setattr(intensity.ncu, "watch", refuse)
    monkeypatch.setattr(intensity.peers, "gemm_ceiling", lambda device: {"tflops": 50.0})
    device = HostDevice()
    device.kind = "fake"
    found = main.run(intensity.STUDY, tmp_path, quick=True, device=device)
    assert found.rows["ncu/5x5/direct"]["status"] == status and found.rows["5x5/direct"]["status"] == "ok"
