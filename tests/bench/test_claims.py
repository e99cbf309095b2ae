"""The study that sets the documents' claims beside the other studies' figures."""

import json

import pytest

import bench.__main__ as main
from bench.studies import claims
from bench.studies.contest import shape_fields
from tests.bench.fakes import FakeDevice
from warpconv.codegen.shape import ConvShape

TWELVE = ("conv1", "conv2", "conv3", "conv4_mec", *(f"conv{i}" for i in range(5, 13)))
SHAPE = ConvShape(n=2, c=3, h=12, w=12, k=4, r=3, s=3)


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "RESULTS", tmp_path / "results")

    def put(study, rows):
        folder = tmp_path / "results" / study
        folder.mkdir(parents=True)
        (folder / f"{study}.json").write_text(json.dumps({"schema": 1, "study": study, "runs": [{"arch": "sm_90"}],
                                                          "rows": [{"run": 0, "status": "ok", **r} for r in rows]}))
    return put


def run(tmp_path):
    return main.run(claims.STUDY, tmp_path / "out", device=FakeDevice()).rows


def sub_blocks(both):
    loads = {"direct": 1400, "column only": 560, "row only": 300, "both": both}
    return [{"key": f"sub-block/5/{form}", "filter": 5, "variant": form, "load_requests": n}
            for form, n in loads.items()]


def layer(name, **times):
    return {"key": name, "name": name, "macs": SHAPE.macs, **shape_fields(SHAPE),
            **{f"{key}_ms": value for key, value in times.items()}}


def test_claims_have_keys_of_their_own_and_studies_that_there_are():
    keys = [claim.key for claim in claims.CLAIMS]
    assert len(keys) == len(set(keys))
    assert {claim.study for claim in claims.CLAIMS} <= set(main.STUDIES)


def test_without_results_every_claim_says_which_study_is_missing(tmp_path, results):
    rows = run(tmp_path)
    assert len(rows) == len(claims.CLAIMS)
    assert all(row["status"] == f"skipped: docs/results/{row['study']}/{row['study']}.json is not there"
               for row in rows.values())


def test_counts_that_hold_and_one_that_does_not(tmp_path, results):
    results("transactions", sub_blocks(120))
    rows = run(tmp_path)
    assert (rows["reuse/row"]["here"], rows["reuse/row"]["holds"]) == ("5 -> 2", True)
    assert rows["reuse/output"]["holds"] is True
    assert rows["reuse/rows"]["status"] == "skipped: sub-block/3/direct was not counted"


def test_a_count_that_differs_does_not_hold(tmp_path, results):
    rows = sub_blocks(120)
    rows[1]["load_requests"] = 840
    results("transactions", rows)
    found = run(tmp_path)["reuse/row"]
    assert (found["here"], found["holds"]) == ("5 -> 3", False)


def test_speedups_with_and_without_the_transform(tmp_path, results):
    steps = [{"step": "launch im2win_transform(x)", "ms": 1.0}, {"step": "launch product(t)", "ms": 2.0}]
    results("twelve_layers", [layer(name, im2win=3.0, torch_im2col=8.0, direct=9.0, im2win_basic=18.0,
                                    reuse=30.0, implicit_gemm=3.0) | {"im2win_steps": steps} for name in TWELVE])
    rows = run(tmp_path)
    assert rows["im2win/im2col"]["here"].startswith("4.00x") and rows["im2win/im2col"]["holds"] is True
    assert rows["im2win/im2col, all"]["here"].startswith("2.67x") and rows["im2win/im2col, all"]["holds"] is False
    assert rows["im2win/direct"]["here"].startswith("3.00x") and rows["im2win/direct"]["holds"] is False
    assert rows["im2win/basic"]["holds"] is None and rows["channels/many"]["holds"] is True
    assert rows["im2win/ablations"]["status"] == "skipped: an ablation was not timed"


def test_the_order_of_ablations(tmp_path, results):
    times = {"im2win": 1.0, "im2win without prefetch": 1.25, "im2win without vector_loads": 2.0,
             "im2win without micro_kernel": 5.0}
    results("twelve_layers", [layer(name, **times) for name in TWELVE])
    found = run(tmp_path)["im2win/ablations"]
    assert found["holds"] is True and found["here"] == ("kept without the micro-kernel 0.20, vector loads 0.50, "
                                                        "prefetch 0.80")


def slides(filters):
    times = {"naive": (4.0, 3.0, 9.0), "constant": (2.0, 2.0, 6.0), "tiled": (1.0, 4.0, 5.0)}
    return [{"key": f"{taps}x{taps}/{name}", "kind": "measured", "filter": taps, "name": name, "ms": ms}
            for name, each in times.items() for taps, ms in zip(filters, each)]


def test_gains_of_the_slides_at_their_worst_filter(tmp_path, results):
    results("intensity", slides((3, 5, 9)))
    rows = run(tmp_path)
    assert rows["slides/constant"]["holds"] is True
    assert rows["slides/constant"]["here"] == "3x3: 2.00x, 5x5: 1.50x, 9x9: 1.50x"
    assert rows["slides/tiled"]["holds"] is False


def test_a_part_of_what_a_claim_speaks_of_decides_nothing(tmp_path, results):
    results("intensity", slides((3, 5)))
    results("twelve_layers", [layer("conv5", im2win=1.0, torch_im2col=8.0)])
    rows = run(tmp_path)
    assert rows["slides/constant"]["holds"] is None and rows["slides/constant"]["here"] == "3x3: 2.00x, 5x5: 1.50x"
    assert rows["im2win/im2col, all"]["holds"] is None


def test_a_halo_from_memory_would_show_as_sectors_that_missed_the_l2(tmp_path, results):
    plane = 4096 * 4096 * 4 // 32
    for share, holds in ((0.9, True), (1.3, False)):
        rows = [{"key": f"ncu/{taps}x{taps}/halo_cached", "l1_hit_pct": 50, "l2_hit_pct": 50,
                 "l2_read_sectors": 2 * share * plane} for taps in (3, 5, 9)]
        found = claims._halo_in_caches({row["key"]: {"status": "ok", **row} for row in rows})
        assert found.holds is holds


def test_tables_hold_every_measured_claim(tmp_path, results):
    results("transactions", sub_blocks(120))
    rows = run(tmp_path)
    made = {table.title: table for table in claims.tables(rows)}
    assert [line[0] for line in made[claims.REUSE].rows] == [claim.says for claim in claims.CLAIMS[:2]]
    assert made[claims.REUSE].text == "2 of 2 hold."
    assert (tmp_path / "out" / "README.md").exists()
