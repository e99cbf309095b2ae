"""Stall reasons from ncu's CSV."""

from bench import ncu_stalls
from bench.report import markdown_table

CSV = "\n".join(['==PROF== Connected', '"ID","Kernel Name","Metric Name","Metric Value"',
                 '"0","a","gpu__time_duration.sum","1,234"',
                 f'"0","a","{ncu_stalls.STALLS["wait"]}","0.5"', f'"0","a","{ncu_stalls.STALLS["lg_throttle"]}","2.25"',
                 '"1","b","launch__registers_per_thread","n/a"'])


def test_launches_are_kept_apart_and_stalls_sorted():
    first, second = ncu_stalls.parse(CSV)
    assert first["duration_ns"] == 1234 and list(first["stalls"].items()) == [("lg_throttle", 2.25), ("wait", 0.5)]
    assert second == {"stalls": {}}
    assert ncu_stalls.parse("no CSV") == []
    shown = "\n".join(markdown_table(ncu_stalls.table([{"kernel": "wide", **first}])))
    assert "lg_throttle 2.25, wait 0.50" in shown
