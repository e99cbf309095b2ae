"""The studies' own code, without a GPU: their registry, and each from end to end on a fake device."""

import importlib
import sys

import pytest
from click.testing import CliRunner

import bench.__main__ as main
from bench.devices import NoDevice, open_device
from bench.report import environment
from bench.studies import selection, variants
from tests.bench.fakes import FakeDevice
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape


# ---- registry and command line

@pytest.mark.parametrize("name", main.STUDIES)
def test_every_study_is_found_and_named_as_it_is_called(name):
    found = main.study(name)
    assert found.name == name and found.about and found.summary
    assert list(found.tables({})) is not None


def test_help_tells_the_studies():
    said = CliRunner().invoke(main.main, ["--help"]).output
    assert all(name in said for name in main.STUDIES)


def test_without_a_gpu_a_study_that_needs_one_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(main, "open_device", lambda wanted: (_ for _ in ()).throw(NoDevice("nothing here")))
    done = CliRunner().invoke(main.main, ["variants", "-o", str(tmp_path)])
    assert done.exit_code == 1 and "nothing here" in done.output


def test_a_machine_without_libraries_gives_both_reasons(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(NoDevice, match="PyTorch.*CuPy"):
        open_device()


# ---- the studies on a fake device

@pytest.mark.long
def test_variants_from_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(variants, "QUICK_SIZES", (32, 40))
    found = main.run(variants.STUDY, tmp_path, quick=True, device=FakeDevice())
    ours = [r for r in found.rows.values() if r.get("kind") == "ours"]
    assert ours and all(r["status"] == "ok" and r["gbs"] > 0 for r in ours)
    assert found.rows["3x3/40/cuDNN"]["status"].startswith("skipped: ")
    text = (tmp_path / "README.md").read_text()
    assert "| base |" in text and "32^2 GB/s" in text and "% of copy at 40^2" in text
    assert (tmp_path / "variants.svg").exists()
    (tmp_path / "README.md").unlink()
    assert CliRunner().invoke(main.main, ["variants", "--tables", "-o", str(tmp_path)]).exit_code == 0
    assert (tmp_path / "README.md").read_text() == text


def test_variants_mark_a_wrong_kernel(tmp_path, monkeypatch):
    monkeypatch.setattr(variants, "QUICK_SIZES", (32,))
    monkeypatch.setattr(variants, "QUICK_FILTERS", (3,))
    monkeypatch.setattr(FakeDevice, "wrong", 1e-3)
    found = main.run(variants.STUDY, tmp_path, quick=True, device=FakeDevice())
    assert found.rows["3x3/32/base"]["status"].startswith("WRONG")


@pytest.mark.parametrize("taps", variants.FILTERS)
def test_every_configuration_can_be_planned_and_differs(taps):
    plans = {}
    for config in variants.configurations():
        if taps in config.filters:
            plan = plan_layer(variants.plane(1024, taps), algorithm=config.algorithm, settings=config.settings)
            plans[config.name] = (config.algorithm, tuple(plan.settings().items()))
    base = plans.pop("base")
    assert base not in plans.values()


def test_select_from_end_to_end(tmp_path, monkeypatch):
    small = {"plane": ConvShape(c=1, h=20, w=40, k=1, r=3, s=3, padding=1),
             "strided": ConvShape(c=2, h=9, w=9, k=2, r=3, s=3, stride=2)}
    monkeypatch.setattr(selection, "layers", lambda: small)
    found = main.run(selection.STUDY, tmp_path, device=FakeDevice())
    assert found.rows["plane"]["ratio"] >= 1 and found.rows["plane"]["chosen"] in ALGORITHMS
    assert "stride" in found.rows["strided"]["reuse_reason"]
    assert "2 choices" in (tmp_path / "README.md").read_text()


def test_select_has_thirty_layers_that_somebody_serves():
    assert len(selection.layers()) >= 30
    assert all(explain(shape)[0].supported for shape in selection.layers().values())


def test_every_module_of_bench_can_be_imported():
    for path in sorted((environment.ROOT / "bench").glob("*.py")):
        assert importlib.import_module(f"bench.{path.stem}" if path.stem != "__init__" else "bench")
        assert len(path.read_text().splitlines()) < 400, path.name
