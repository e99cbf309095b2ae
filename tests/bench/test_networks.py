"""The studies paper_layers, twelve_layers and memory on a fake device, and what their tables say of a run."""

import json

import pytest

import bench.__main__ as main
from bench.peers import networks as network_peers
from bench.studies import contest, memory, memory_tables, paper_layers, published, twelve_layers, twelve_tables
from tests.bench.fakes import FakeDevice
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import explain
from warpconv.runtime.layers import read_layers

TWELVE, PAPERS = ({layer.name: layer.shape for layer in read_layers(name)}
                  for name in ("twelve_layers", "paper_layers"))
LAYERS = {**TWELVE, **PAPERS}


# ---- from end to end

@pytest.mark.thin(3)
@pytest.mark.parametrize("name", ["paper_layers", "twelve_layers", "memory"])
def test_from_end_to_end_on_a_fake_device(tmp_path, name):
    study = main.study(name)
    found = main.run(study, tmp_path, quick=True, device=FakeDevice())
    rows = contest.measured(found.rows)
    assert len(rows) == 3
    field = "held" if name == "memory" else "ms"
    for row in rows:
        assert row["failed"] == []
        for algorithm in ALGORITHMS:
            assert f"{algorithm}_{field}" in row or row[f"{algorithm}_reason"], (row["key"], algorithm)
        assert contest.shape_of(row).output_shape and row["torch_im2col_reason"] == "missing: no GPU"
    text = (tmp_path / "README.md").read_text()
    assert "## Not timed" in text and "no GPU" in text and study.about.strip() in text
    assert list(tmp_path.glob("*.svg")) and (tmp_path / f"{name}.csv").exists()
    before = json.loads((tmp_path / f"{name}.json").read_text())["rows"]
    again = main.run(study, tmp_path, quick=True, device=FakeDevice())
    assert {row["key"]: row for row in before if row["status"] == "ok"} == \
        {key: row for key, row in again.rows.items() if row["status"] == "ok"}


def test_quick_runs_have_keys_of_full_ones():
    assert set(twelve_layers.QUICK) < set(TWELVE) and set(paper_layers.QUICK) < set(PAPERS)
    assert set(twelve_tables.TWELVE) | {"conv4"} == set(TWELVE)


@pytest.mark.parametrize("name", LAYERS)
def test_a_trial_is_a_small_layer_of_its_kind(name):
    shape, small = LAYERS[name], contest.trial(LAYERS[name])
    assert (small.r, small.s, small.stride, small.padding) == (shape.r, shape.s, shape.stride, shape.padding)
    assert small.macs < 1e6 and small.p <= shape.p


# ---- the contest

def test_every_algorithm_enters_or_says_why_and_variants_too():
    shape = LAYERS["conv1"]
    variants = (contest.Variant("odd", "no_such", {}), contest.Variant("without", "direct", {"no_such": "off"}),
                contest.Variant("same", "direct", {}), contest.Variant("bad", "direct", {"block_size_x": 0}),
                contest.Variant("other", "direct", {"block_size_x": 32, "block_size_y": 4}))
    found = {e.name: e for e in contest.entrants(shape, "sm_90", variants)}
    assert list(found)[0] == explain(shape)[0].algorithm and set(found) == set(ALGORITHMS) | {v.name for v in variants}
    assert all((e.plan is None) == bool(e.reason) for e in found.values())
    assert "no_such" in found["odd"].reason and "plan value no_such" in found["without"].reason
    assert found["same"].reason == "the same plan as direct" and found["bad"].plan is None
    assert found["other"].plan.settings()["block_size_x"] == 32


def test_a_wrong_algorithm_is_a_reason_and_the_others_are_timed(tmp_path, monkeypatch):
    class OneWrong(FakeDevice):
        def specialize(self, shape, plan):
            kernel = super().specialize(shape, plan)
            kernel.wrong = 1e-2 if plan.spec.algorithm == "direct" else 0.0
            if plan.spec.algorithm == "wide":
                raise RuntimeError("planted")
            return kernel

    row = main.run(main.study("paper_layers"), tmp_path, quick=True, device=OneWrong()).rows["conv1_c1"]
    assert row["direct_reason"].startswith("WRONG: ") and row["wide_reason"] == "failed: RuntimeError: planted"
    assert row["reuse_ms"] > 0 and "direct_ms" not in row and row["quickest"] not in ("direct", "wide")
    assert sorted(row["failed"]) == ["direct", "wide"]
    told = (tmp_path / "README.md").read_text().partition("Wrong or failed: ")[2]      # in the order of estimates
    assert "conv1_c1: wide" in told and "conv1_c1: direct" in told
    again = main.run(main.study("paper_layers"), tmp_path, quick=True, device=FakeDevice()).rows["conv1_c1"]
    assert again["run"] == 1 and again["direct_ms"] > 0 and not again["failed"]


def test_a_row_that_does_not_know_an_algorithm_is_measured_again(tmp_path):
    study = main.study("memory")
    row = main.run(study, tmp_path, quick=True, device=FakeDevice()).rows["conv6"]
    stored = json.loads((tmp_path / "memory.json").read_text())
    stored["rows"] = [{k: v for k, v in row.items() if not k.startswith("direct_")} if row["key"] == "conv6" else row
                      for row in stored["rows"]]
    (tmp_path / "memory.json").write_text(json.dumps(stored))
    again = main.run(study, tmp_path, quick=True, device=FakeDevice()).rows
    assert (again["conv6"]["run"], again["conv1"]["run"]) == (1, 0) and again["conv6"] | {"run": 0} == row


def test_a_launch_that_takes_too_long_is_checked_and_not_timed(tmp_path, monkeypatch):
    from bench import harness
    monkeypatch.setattr(harness, "LONGEST_S", 0.0)
    monkeypatch.setattr(FakeDevice, "trial", False)
    device, shape = FakeDevice(), contest.trial(LAYERS["conv12"])
    layer = harness.make_layer(device, shape, most=1)
    context = type("C", (), {"device": device, "say": lambda self, text: None})()
    found = contest.hold(context, layer)
    assert "one launch takes" in found["direct_reason"] and found["quickest"] is None


def test_steps_are_timed_alone_beside_the_whole(monkeypatch):
    class Program:
        steps = ("launch transform(x, t)", "launch compute(t, y)")
        preparation = type("P", (), {"steps": ("launch reorder(w, v)",)})()

    class Kernel:
        program = Program

        def only(self, step):
            asked.append(step)
            return Part()

    class Part:
        def prepare(self, weight):
            return [weight]

        def __call__(self, x, w, out):
            given.append(w)

    asked, given = [], []
    device = FakeDevice()
    device.specialize = lambda shape, plan: Kernel()
    layer = type("L", (), {"shape": None, "xs": (1,), "ys": (2,), "w": 3})()
    found = contest.step_times(device, layer, type("Plan", (), {"program": Program}))
    assert asked == [0, 1, None] and [s["step"] for s in found["steps"]] == list(Program.steps) and found["filter"] >= 0
    assert given[0] == [3] and given[-1] == 3       # a transform takes the filter as it is


# ---- tables of twelve_layers

def row(name, **times):
    shape = LAYERS[name]
    return {"key": name, "name": name, "status": "ok", "kind": "layer", "macs": shape.macs, "channels": shape.c,
            "bytes": shape.bytes_moved, "tensors": memory.tensor_bytes(shape), **contest.shape_fields(shape),
            **memory.formulas(shape), **{f"{key}_ms": value for key, value in times.items()}}


def aims(rows, gemm=None):
    found = {r["key"]: r for r in rows} | {"ceiling/sgemm": {"key": "ceiling/sgemm", "status": "ok", "tflops": gemm}}
    return {line[0]: line[1:] for line in twelve_tables.tables(found)[0].rows}


def test_targets_take_means_over_the_twelve_and_name_the_worst():
    rows = [row(name, im2win=1.0, torch_im2col=3.0, cudnn_fp32_lean=1.2, direct=2.0) for name in TWELVE]
    rows[3] |= {"torch_im2col_ms": 300.0, "direct_ms": 0.5}            # conv4 with 32 channels: in no mean
    rows[0] |= {"torch_im2col_ms": 1.5}
    rows[1] |= {"im2col batch=image_ms": 2.0}                           # ours is the quicker
    found = aims(rows)
    mean = next(v for k, v in found.items() if k.startswith("im2win: mean speedup over im2col"))
    assert mean[1] == pytest.approx((1.5 + 2.0 + 10 * 3.0) / 12)
    assert mean[2:4] == ("12 of 12", "conv1") and mean[5] is True
    direct = found["im2win: never slower than direct (speedup)"]
    assert direct[1] == 0.5 and direct[3] == "conv4" and direct[5] is False
    lean = next(v for k, v in found.items() if k.startswith("im2win: mean speedup over cuDNN"))
    assert lean[1] == pytest.approx(1.2) and lean[5] is True
    assert all(v[1] is None and v[5] is None for k, v in found.items() if k.startswith("implicit_gemm"))


def test_speedups_without_the_transform_stand_beside_the_documents_claim():
    first = row("conv1", im2win=1.0, torch_im2col=3.0, torch_cudnn=1.5)
    first["im2win_steps"] = [{"step": "transform", "ms": 0.5}, {"step": "product", "ms": 0.25},
                             {"step": "sum", "ms": 0.25}]
    made = {table.title: table for table in twelve_tables.tables({"conv1": first})}["Mean speedups"]
    lines = {(line[0], line[1]): line for line in made.rows}
    words = twelve_tables.BASELINES["torch_im2col"][0]
    assert lines["im2win", words][2] == 3.0 and lines[twelve_tables.PRODUCT, words][2] == 6.0
    claimed = lines[twelve_tables.PRODUCT, twelve_tables.BASELINES["cudnn"][0]]
    assert claimed[2] == 3.0 and claimed[7] == 1.1 and claimed[8] == pytest.approx(1.09, abs=0.01)


def test_a_target_that_was_not_measured_everywhere_is_not_met():
    found = aims([row("conv5", im2win=1.0, torch_im2col=9.0)])
    mean = next(v for k, v in found.items() if k.startswith("im2win: mean speedup over im2col"))
    assert mean[1] == 9.0 and mean[2] == "1 of 12" and mean[5] is None


def test_the_part_of_sgemm_is_the_least_of_its_layers():
    rows = [row(name, implicit_gemm=2 * LAYERS[name].macs / 40e9) for name in twelve_tables.SGEMM_LAYERS]
    rows[2] |= {"implicit_gemm_ms": 2 * LAYERS["conv6"].macs / 30e9}
    part = aims(rows, 50.0)[f"implicit_gemm: part of the SGEMM rate on {', '.join(twelve_tables.SGEMM_LAYERS)}"]
    assert part[1] == pytest.approx(0.6) and part[3] == "conv6" and part[5] is False


def test_ablations_and_steps_are_shown_beside_the_documents():
    first = row("conv1", im2win=1.0, **{"im2win without prefetch": 1.25, "im2win without micro_kernel": 2.0})
    first["im2win without prefetch_steps"] = [{"step": "a", "ms": 0.25}, {"step": "b", "ms": 0.625}]
    first |= {"im2win_steps": [{"step": "launch transform(x, t), blocks 1", "ms": 0.25},
                               {"step": "launch compute(t, y), blocks 1", "ms": 0.5}], "im2win_filter": 0.125}
    made = {table.title: table for table in twelve_tables.tables({"conv1": first})}
    line = made["Ablations of im2win"].rows[0]
    assert line[5:11] == (0.8, None, 0.5, 0.8, None, None) and line[11] == pytest.approx(7.42 / 8.02)
    assert made["Ablations of im2win"].rows[-1][5:9] == (0.8, None, 0.5, 0.8)
    assert [(s[2], s[3]) for s in made["Each step alone"].rows] == [
        ("transform", 0.25), ("compute", 0.5), ("without transform", 0.5), ("a call: all steps", 1.0),
        ("the filter's reordering", 0.125), ("all included", 1.125)]
    theirs = next(s for s in made["Beside the documents"].rows if s[1] == "im2win")
    assert theirs[2] == 8.02 and theirs[3] == pytest.approx(2 * LAYERS["conv1"].macs / 1e9)


# ---- the documents' figures

def test_the_logs_give_the_means_that_the_documents_claim():
    speedup = {base: [line["im2win"] / line[base] for line in published.TFLOPS.values()] for base in ("im2col", "cudnn",
                                                                                                      "direct")}
    assert len(published.TFLOPS) == 12
    assert sum(speedup["im2col"]) / 12 == pytest.approx(3.44, abs=0.01)
    assert sum(speedup["cudnn"]) / 12 == pytest.approx(1.09, abs=0.01) and sum(v > 1 for v in speedup["cudnn"]) == 7
    assert min(speedup["direct"]) == pytest.approx(5.0, abs=0.05)
    assert max(speedup["direct"]) == pytest.approx(155.8, abs=0.5)
    assert 100 * memory_tables.savings(memory_tables.logged("cudnn"))[0] == pytest.approx(32.85, abs=0.01)
    assert 100 * memory_tables.savings(memory_tables.logged("im2col"))[0] == pytest.approx(22.2, abs=0.05)


# MiB of digest and paper: im2win, im2col of the batch, im2col of an image
SIZES = {"conv1": (201.2, 536.2, 4.19), "conv2": (208.4, 555.8, 4.34), "conv3": (258.4, 884.4, 6.91),
         "conv4": (2670.5, 9096.4, 71.07), "conv5": (112.5, 468.8, 3.66), "conv6": (45.0, 112.5, 0.88),
         "conv7": (218.5, 649.7, 5.08), "conv8": (1155.0, 3403.1, 26.59), "conv9": (283.5, 820.1, 6.41),
         "conv10": (136.5, 380.2, 2.97), "conv11": (63.0, 162.0, 1.27), "conv12": (26.2, 56.2, 0.44)}


@pytest.mark.parametrize("name", SIZES)
def test_formulas_give_the_papers_sizes(name):
    found = memory.formulas(LAYERS[name])
    ours = [found[f"{key}_formula"] / 2**20 for key in ("im2win", "im2col_batch", "im2col_image")]
    assert ours == [pytest.approx(size, abs=0.06 if size > 9 else 0.006) for size in SIZES[name]]


# ---- memory

def test_savings_are_the_documents_way_and_the_mean():
    first, second = memory_tables.savings([(1.0, 2.0), (1.0, 4.0)])
    assert first == pytest.approx(1 - 1 / 3.0) and second == pytest.approx((0.5 + 0.75) / 2)
    assert memory_tables.savings([]) is None


def test_im2col_of_the_whole_batch_is_the_variant_or_the_default():
    variant = {"im2col batch=whole_workspace": 5, "im2col batch=whole_filter": 1}
    assert memory_tables.whole_batch(variant) == 6
    own = {"im2col_settings": {"batch": "whole"}, "im2col_workspace": 7, "im2col_filter": 0, "im2col_held": 8}
    assert memory_tables.whole_batch(own) == 8 and memory_tables.whole_batch(own, plan=True) == 7
    times = {"im2col_ms": 2.0, "torch_im2col_ms": 3.0}
    assert twelve_tables.im2col_ms({"im2col_settings": {"batch": "image"}, **times}) == 2.0
    assert twelve_tables.im2col_ms({"im2col_settings": {"batch": "whole"}, **times}) == 3.0


def test_the_verdict_names_the_nearest_comparison():
    made = {table.title: table for table in memory_tables.tables({})}
    lines = made["Which comparison the document's figures are"].rows
    cudnn = next(line for line in lines if "cudnn" in line[0])
    assert cudnn[1] == "their logs, cudnn" and cudnn[2] == pytest.approx(32.85, abs=0.01) and cudnn[5] is None
    tensors = memory.tensor_bytes(LAYERS["conv5"])
    one = row("conv5") | {"im2win_workspace": 0, "im2win_filter": 0, "im2win_held": 0,
                          "torch_cudnn_held": round(tensors * (1 / (1 - 0.328) - 1))}
    lines = memory_tables.tables({"conv5": one})[0].rows
    cudnn = next(line for line in lines if "cudnn" in line[0])
    assert cudnn[5].startswith("cuDNN as PyTorch chooses") and cudnn[6] == pytest.approx(32.8, abs=0.01)


def test_what_is_held_is_beside_what_was_planned(monkeypatch):
    class Pool(FakeDevice):
        kind, pooled = "torch", 0

        def held_bytes(self):
            return self.pooled

        def free(self):
            self.pooled = 0

        def specialize(self, shape, plan):
            kernel = super().specialize(shape, plan)
            run = kernel.__class__.__call__

            class Taking(kernel.__class__):
                def __call__(inner, x, w, out=None):
                    self.pooled += 4096
                    return run(inner, x, w, out)
            return Taking(shape)

    device, shape = Pool(), contest.trial(LAYERS["conv6"])
    layer = memory.make_layer(device, shape, most=1)
    plan = next(c.plan for c in explain(shape) if c.algorithm == "direct")
    assert memory.held(device, layer, plan) == {"workspace": 0, "filter": 0, "held": 4096, "settings": plan.settings()}
    made = memory_tables.tables({"conv6": row("conv6") | {"direct_workspace": 4000, "direct_filter": 0,
                                                         "direct_held": 4096}})
    line = next(table for table in made if table.title == "Planned and held, MiB").rows[0]
    assert line[:2] == ("conv6", "direct") and line[5] == pytest.approx(1.024) and line[6] is True
    assert made[2].rows[0][2] == pytest.approx((memory.tensor_bytes(LAYERS["conv6"]) + 4096) / 2**20)


# ---- paper_layers

def test_the_papers_means_are_over_the_quicker_baseline():
    found = {name: row(name, reuse=2.0, direct=1.0, torch_im2col=8.0, torch_cudnn=3.0, cudnn_fp32=2.0)
             for name in PAPERS}
    found["conv3_c1"] |= {"im2col batch=image_ms": 4.0}
    lines = paper_layers.tables(found)[0].rows
    best = {(line[0], line[1], line[2]): line[3:] for line in lines}
    assert best[1, "our quickest", "im2col for each image"][0] == pytest.approx((10 * 8 + 4) / 11)
    assert best[1, "our quickest", "im2col for each image"][5] == 19.5
    assert best[3, "reuse, the paper's kernel", "cuDNN's quickest"][:2] == (1.0, 1.0)
    assert best[3, "our quickest", "cuDNN's quickest"][4:] == (11, 1.1)


def test_peers_of_network_layers_tell_why_they_are_missing():
    device = FakeDevice()
    found = network_peers.measure_peers(device, type("L", (), {"shape": LAYERS["conv1"]})(), network_peers.REMARKS)
    assert set(found) == {f"{name}_reason" for name in network_peers.REMARKS}
    assert all(reason == "missing: no GPU" for reason in found.values())
