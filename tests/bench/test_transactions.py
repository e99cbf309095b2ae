"""The study transactions: what is counted by execution, and what stands beside it from ncu."""

import json

import numpy as np
import pytest

import bench.__main__ as main
from bench.counters import counting, ncu
from bench.counters.target import Case
from bench.devices import HostDevice
from bench.harness import WrongResult
from bench.studies import transactions
from tests.bench.fakes import FakeDevice
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

FEW = {3: {"direct": Case("direct", size=40, filter=3), "toeplitz": UnsupportedSpec(None, "not this one"),
           "reuse": Case("reuse", size=40, filter=3)}}


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(transactions, "QUICK_FILTERS", (3,))
    monkeypatch.setattr(transactions, "cases", lambda taps, arch: FEW[taps])


@pytest.mark.thin(2)
@pytest.mark.parametrize("taps", [3, 5])
def test_a_sub_block_costs_what_the_documents_say(taps):
    found = [transactions.sub_block(taps, settings) for settings in transactions.FORMS.values()]
    requests, sectors = transactions.EXPECTED[taps]
    assert tuple(counts["load_requests"] for counts in found) == requests
    assert (found[0]["load_sectors"], found[3]["load_sectors"]) == sectors
    assert transactions.sub_block(taps, None)["load_requests"] == requests[0]


def test_every_algorithm_is_counted_or_says_why_not():
    for taps in transactions.FILTERS:
        found = transactions.cases(taps, "sm_90")
        assert set(ALGORITHMS) <= set(found) and len(found) >= len(ALGORITHMS) + len(transactions.FORMS)
        for case in found.values():
            assert isinstance(case, Case) or "^2" in case.reason
    assert set(transactions.CHANGED) <= set(transactions.cases(transactions.CHANGED_AT, "sm_90"))


def test_counts_of_direct_follow_from_its_text():
    """A lane of direct loads each tap that lies in the image, and the filter's value with it."""
    shape = ConvShape(c=1, h=3, w=32, k=1, r=1, s=3)
    counts = counting.execute(plan_layer(shape, algorithm="direct"), shape, *counting.data(shape))
    assert counts["load_requests"] == 2 * 3 * 3 and counts["weight_load_requests"] == 3 * 3
    assert counts["shared_requests"] == counts["shuffles"] == 0 and counts["store_requests"] == 3
    assert counting.count_fmas(plan_layer(shape, algorithm="direct"), shape) == 3 * 3 * shape.q


def test_multiply_adds_are_those_that_lanes_execute():
    """direct skips filter rows outside the image and multiplies columns outside it by zero; idle lanes do nothing."""
    from bench.studies.floors import taps_inside
    shape = Case("direct", size=33, filter=5).shape
    rows = taps_inside(33, 5, 33, 1, 1, 2)
    assert counting.count_fmas(plan_layer(shape, algorithm="direct"), shape) == rows * 5 * 33
    half = Case("toeplitz", size=33, filter=5, dtype="float16").shape
    assert counting.count_fmas(plan_layer(half, algorithm="toeplitz"), half) is None


def test_a_wrong_result_is_not_counted(monkeypatch):
    shape = Case("direct", size=12, filter=3).shape
    x, w = counting.data(shape)
    with pytest.raises(WrongResult):
        counting.execute(plan_layer(shape, algorithm="direct"), shape, x, np.flip(w, -1).copy())


def test_from_end_to_end_without_a_gpu(tmp_path, few):
    found = main.run(transactions.STUDY, tmp_path, quick=True, device=HostDevice())
    direct = found.rows["executed/3x3/direct"]
    assert direct["status"] == "ok" and direct["outputs"] == 1600 and direct["fmas"] == (3 * 40 - 2) * 3 * 40
    assert found.rows["executed/3x3/toeplitz"]["status"] == "declined: not this one"
    assert found.rows["hardware/3x3/reuse"]["status"] == "skipped: no GPU"
    assert "hardware/3x3/toeplitz" not in found.rows
    text = (tmp_path / "README.md").read_text()
    assert "| 3 | 504 | 336 | 174 | 116 | 504 | 4.3x | 9 -> 6 | equal |" in text
    assert "3x3: executed / measured" not in text
    assert (tmp_path / "transactions.svg").exists()


def test_what_ncu_saw_stands_beside_it(tmp_path, few, monkeypatch):
    asked = []

    def watch(target, metrics):
        asked.append([json.loads(word)["kernel"] for word in target if word.startswith("{")])
        values = {metric: 0.0 for metric in metrics}
        stores = ncu.COUNTERS["store_requests"].metrics[0]
        return [ncu.Watched(({"entry": "direct_3x3", **values, stores: 80.0},)), ncu.Watched(error="lost")]

    monkeypatch.setattr(transactions.ncu, "watch", watch)
    monkeypatch.setattr(transactions, "compile_ahead", lambda device, plans: [plan() for plan in plans])
    monkeypatch.setattr(FakeDevice, "kind", "fake")
    found = main.run(transactions.STUDY, tmp_path, quick=True, device=FakeDevice())
    assert asked == [["direct", "reuse"]] and found.rows["hardware/3x3/direct"]["store_requests"] == 80
    assert found.rows["hardware/3x3/reuse"]["status"] == "failed: RuntimeError: lost"
    executed = found.rows["executed/3x3/direct"]
    assert executed["store_requests"] == 80
    text = (tmp_path / "README.md").read_text()
    assert f"| direct | {executed['load_requests']} / 0 | {executed['load_sectors']} / 0 | 80 = |" in text
    main.run(transactions.STUDY, tmp_path, quick=True, device=FakeDevice())
    assert asked[1:] == [["reuse"]]


def test_a_refusal_of_ncu_leaves_the_executed_counts(tmp_path, few, monkeypatch):
    def refuse(target, metrics):
        raise ncu.NoDevice("no permission")
    monkeypatch.setattr(transactions.ncu, "watch", refuse)
    monkeypatch.setattr(transactions, "compile_ahead", lambda device, plans: None)
    monkeypatch.setattr(FakeDevice, "kind", "fake")
    found = main.run(transactions.STUDY, tmp_path, quick=True, device=FakeDevice())
    assert found.rows["hardware/3x3/direct"]["status"] == "skipped: no permission"
    assert found.rows["executed/3x3/reuse"]["status"] == "ok"


def test_library_steps_and_each_of_several_launches_are_told():
    row = {"key": "executed/3x3/im2col", "status": "ok", "filter": 3, "kernel": "im2col", "layer": "9^2, 3x3",
           "outputs": 64, "library_steps": 1, "fmas": None, **dict.fromkeys(counting.NAMES, 4),
           "weight_load_requests": 0, "weight_load_sectors": 0}
    launch = {"entry": "im2col_5x5", **dict.fromkeys((*counting.NAMES, "weight_load_requests"), 2)}
    table = transactions.tables({row["key"]: {**row, "launches": [launch]}})[2]
    assert table.rows[0][0] == "im2col (+ a library's GEMM)" and table.rows[0][-1] is None and table.rows[0][4] == 2.0
    assert table.rows[1][0] == "- im2col_5x5 alone" and table.rows[1][2:5] == (2, 2, 1.0)
    assert all(len(line) == len(table.columns) for line in table.rows)


def test_equal_texts_counted_at_a_time_do_not_add_to_each_other():
    shape = Case("reuse", size=40, filter=3).shape
    plan = plan_layer(shape, algorithm="reuse")
    alone = counting.count_fmas(plan, shape)
    with counting.Counting({i: lambda: {"fmas": counting.count_fmas(plan, shape)} for i in range(12)}) as several:
        assert {several.of(i)["fmas"] for i in range(12)} == {alone}


def test_matrix_instructions_are_not_counted_as_shuffles():
    found = counting.count_case(Case("toeplitz", size=33, filter=3, dtype="float16"), "sm_90")
    assert found["shuffles"] is None and found["fmas"] is None and found["load_requests"] > 0
