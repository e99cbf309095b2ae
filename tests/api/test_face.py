"""The names of ``warpconv``: all that a documented call needs, for type checkers too, and the ways to start it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import warpconv
from warpconv.codegen import errors
from warpconv.runtime.tuning import files
from warpconv.runtime.tuning.choice import shipped

ROOT = Path(__file__).parents[2]
SHAPE = warpconv.ConvShape(c=1, h=99, w=99, k=1, r=3, s=3)


def test_every_error_is_exported():
    found = {name for name, kind in vars(errors).items()
             if isinstance(kind, type) and kind.__module__ == errors.__name__}
    assert found <= set(warpconv.__all__) and "PlannerError" in found


def test_checkers_see_the_names_that_there_are():
    tree = ast.parse((ROOT / "api" / "__init__.pyi").read_text(encoding="utf-8"))
    stated = {alias.asname: f"{node.module}.{alias.name}" for node in tree.body if isinstance(node, ast.ImportFrom)
              for alias in node.names}
    assert set(stated) == set(warpconv.__all__)
    for name, origin in stated.items():
        module, _, within = origin.rpartition(".")
        assert getattr(sys.modules.get(module) or __import__(module, fromlist=[within]), within) is getattr(
            warpconv, name), name


def test_a_layer_from_request_to_text_by_exported_names_alone():
    request = warpconv.Request.of(SHAPE, arch=warpconv.Hardware.of(warpconv.Arch.parse("sm_80")),
                                  numerics=warpconv.Numerics.FLOAT32)
    found = warpconv.resolve(request)
    assert isinstance(found, warpconv.Resolution) and isinstance(found.selection, warpconv.Selection)
    assert all(isinstance(candidate, warpconv.Candidate) for candidate in found.candidates)
    assert warpconv.render(found.plan).text == warpconv.render(warpconv.plan_layer(SHAPE, arch="sm_80")).text
    layer, *_ = warpconv.read_layers("paper_layers")
    assert isinstance(layer, warpconv.NamedLayer) and layer.shape.dtype is warpconv.DType.FLOAT32
    assert SHAPE.layout is warpconv.Layout.NCHW and SHAPE.padding_mode is warpconv.Border.ZEROS


def test_a_tuning_table_is_what_planning_takes(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPCONV_TUNE_DB", str(tmp_path / "none.json"))
    subject = next(subject for subject in shipped().subjects() if shipped().timed(subject)
                   and subject.numerics is warpconv.Numerics.FLOAT32)
    table = warpconv.tuning_table(arch=subject.arch)
    assert table.best(subject.shape, warpconv.Arch.parse(subject.arch)) is not None
    assert warpconv.plan_layer(subject.shape, arch=subject.arch, tuning=table)
    with pytest.raises(warpconv.FileError):
        warpconv.tuning_table(tmp_path / "none.json")
    with pytest.raises(warpconv.ArgumentError):
        warpconv.tuning_table(arch="sm_nine")
    kept = tmp_path / "kept.json"
    files.write(kept, shipped())
    assert warpconv.tuning_table(kept, arch=subject.arch).best(subject.shape, warpconv.Arch.parse(subject.arch))


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "warpconv", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and warpconv.__version__ in done.stdout


def test_types_are_shipped():
    assert (ROOT / "api" / "py.typed").exists() and "    py.typed\n    *.pyi\n" in (ROOT / "setup.cfg").read_text()
