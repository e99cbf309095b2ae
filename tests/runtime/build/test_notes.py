"""runtime/build/notes.py: a process whose kernel is on the disk plans nothing, and has what planning would give."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import warpconv
from tests import drawn, settings
from warpconv import ConvShape
from warpconv.codegen import registry
from warpconv.codegen.errors import KernelNotBuilt, UnsupportedSpec
from warpconv.codegen.request import Request, settings_of
from warpconv.codegen.resolution import resolve
from warpconv.runtime import env
from warpconv.runtime.build import cache_disk, notes
from warpconv.runtime.build.pipeline import Text
from warpconv.runtime.call import conv, kernels

LAYER = ConvShape(c=1, h=9, w=11, k=1, r=3, s=3, padding=1)
PROGRAM = """
import sys
import numpy as np
import warpconv
x, w = np.arange(99, dtype=np.float32).reshape(1, 1, 9, 11), np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
y = warpconv.conv2d(x, w, padding=1, device="cpu")
print("warpconv.codegen.registry" in sys.modules, y.sum(), warpconv.specialize(
    warpconv.ConvShape(c=1, h=9, w=11, k=1, r=3, s=3, padding=1), device="cpu").plan.spec.algorithm)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A cache with the kernel of LAYER, without notes."""
    root = tmp_path_factory.mktemp("built")
    conv.clear()
    with env.scope(cache_dir=root):
        warpconv.specialize(LAYER, device="cpu")
    conv.clear()
    shutil.rmtree(root / "notes", ignore_errors=True)
    return root


@pytest.fixture
def own(built, tmp_path, monkeypatch):
    """A cache of the test's own that has the kernel, and a generator that nobody changed."""
    root = tmp_path / "cache"
    shutil.copytree(built, root)
    monkeypatch.setenv("WARPCONV_CACHE_DIR", str(root))
    monkeypatch.setattr(warpconv, "IMPORTED", time.time_ns())
    monkeypatch.setattr(notes, "_kept", set())
    notes._generator.cache_clear()
    conv.clear()
    yield root
    conv.clear()
    notes._generator.cache_clear()


def ask_of(layer: ConvShape, **wanted: object) -> kernels.Ask:
    return kernels.asked(layer, None, **wanted)


def unplannable(monkeypatch):
    def plan(*_: object) -> None:
        raise AssertionError("planned")

    monkeypatch.setattr(kernels, "plan_of", plan)


@pytest.mark.long
def test_a_second_process_imports_no_planner(own):
    def run() -> list[str]:
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True,
                              env={**os.environ, "WARPCONV_CACHE_DIR": str(own)})
        return done.stdout.split()

    first, second = run(), run()
    assert first[0] == "True" and second[0] == "False" and first[1:] == second[1:]


def test_a_noted_kernel_is_the_planned_one(own, monkeypatch):
    ask = ask_of(LAYER)
    first = kernels.kernel_of(ask)
    conv.clear()
    with monkeypatch.context() as patched:
        unplannable(patched)
        again = kernels.kernel_of(ask)
    assert again is not first and (again.spec, again.program, again.source) == (first.spec, first.program, first.source)
    assert again.plan == first.plan and again.plan is again.plan


def test_what_is_no_longer_on_the_disk_is_planned(own):
    ask = ask_of(LAYER)
    first = kernels.kernel_of(ask)
    conv.clear()
    for entry in (own / "entries").glob("wide*"):
        entry.rename(own / entry.name)
    assert kernels.kernel_of(ask).source == first.source
    conv.clear()
    for entry in (own / "entries").glob("wide*"):
        entry.rename(own / f"again-{entry.name}")
    with pytest.raises(KernelNotBuilt, match="WARPCONV_DISABLE_JIT"), env.scope(disable_jit=True):
        kernels.kernel_of(ask)


@pytest.mark.parametrize("harm", ["", "{", "[]", '{"document": {}, "checksum": "0"}', None, "checksum"])
def test_a_damaged_note_is_none(own, harm):
    ask = ask_of(LAYER)
    first = kernels.kernel_of(ask)
    conv.clear()
    note, = (own / "notes").iterdir()
    if harm == "checksum":
        note.write_text(note.read_text().replace("wide", "reuse"))
    elif harm is None:
        note.chmod(0o666)
    else:
        note.write_text(harm)
    assert notes.find(kernels._asked(ask)) is None
    assert kernels.kernel_of(ask).source == first.source


def test_a_note_of_another_form_is_none(own):
    ask = ask_of(LAYER)
    kernels.kernel_of(ask)
    name = notes._name(kernels._asked(ask), notes._generator())
    for document in (5, {}, {"identity": {}}, {"identity": {"spec": "{}", "program": "{}", "plan": "{}"}}):
        notes._cache().note(name, document)
        assert notes.find(kernels._asked(ask)) is None


@pytest.mark.parametrize("other", [
    ask_of(replace(LAYER, w=12)), ask_of(LAYER, epilogue=("relu",)), ask_of(LAYER, algorithm="direct"),
    ask_of(LAYER, arch="sm_80"), ask_of(LAYER, workspace_limit=0), ask_of(LAYER, settings={"vector": 1}),
    ask_of(LAYER, precision="tf32"), ask_of(LAYER)._replace(exact=True)], ids=str)
def test_what_is_asked_otherwise_has_no_note(own, other):
    kernels.kernel_of(ask_of(LAYER))
    assert notes.find(kernels._asked(ask_of(LAYER))) is not None
    assert notes.find(kernels._asked(other)) is None


def test_templates_laid_over_have_notes_of_their_own(own, tmp_path):
    kernels.kernel_of(ask_of(LAYER))
    folder = tmp_path / "over" / "wide"
    folder.mkdir(parents=True)
    (folder / "kernel.cu.jinja").write_text("// {{ spec.name }}\n")
    with env.scope(templates=folder.parent):
        assert notes.find(kernels._asked(ask_of(LAYER))) is None


def test_a_changed_generator_finds_and_keeps_nothing(own, monkeypatch):
    kernels.kernel_of(ask_of(LAYER))
    monkeypatch.setattr(warpconv, "IMPORTED", 5)
    notes._generator.cache_clear()
    assert notes.find(kernels._asked(ask_of(LAYER))) is None
    kernels.kernel_of(ask_of(replace(LAYER, w=13)))
    assert len(list((own / "notes").iterdir())) == 1


def test_algorithms_from_elsewhere_are_not_noted(own, monkeypatch):
    kernels.kernel_of(ask_of(LAYER))
    monkeypatch.setitem(registry.places._beside, "column", own)
    assert notes.find(kernels._asked(ask_of(LAYER))) is None
    kernels.kernel_of(ask_of(replace(LAYER, w=13)))
    assert len(list((own / "notes").iterdir())) == 1


def test_an_installation_and_an_edit_change_the_name(own, tmp_path, monkeypatch):
    before = notes._generator()
    (tmp_path / "other-1.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    notes._generator.cache_clear()
    assert before is not None and notes._generator() not in (None, before)
    folder = tmp_path / "planners"
    (folder / "room").mkdir(parents=True)
    (folder / "room" / "plan.py").write_text("a = 1\n")
    first = list(notes._files(str(folder)))
    (folder / "room" / "plan.py").write_text("a = 10\n")
    assert [stamp[0] for stamp in first] == [str(folder / "room" / "plan.py")]
    assert list(notes._files(str(folder))) != first


def test_without_a_disk_nothing_is_noted(own):
    text, asked = Text.of(resolve(Request.of(LAYER)).plan), kernels._asked(ask_of(LAYER))
    with env.scope(disable_cache=True):
        notes.keep(asked, text)
        assert notes.find(asked) is None
    assert not (own / "notes").exists() and notes.find(asked) is None


def test_notes_go_with_the_cache(own):
    cache = notes._cache()
    kernels.kernel_of(ask_of(LAYER))
    assert len(list((own / "notes").iterdir())) == 1
    assert json.loads(next((own / "notes").iterdir()).read_text())["document"]["identity"]
    cache.clear()
    assert not list((own / "notes").iterdir())


def test_a_process_keeps_so_many_and_no_more(own, monkeypatch):
    """Images of all sizes are as many requests."""
    monkeypatch.setattr(notes, "MOST_KEPT", 3)
    monkeypatch.setattr(cache_disk, "MOST_NOTES", 4)
    text, count = Text.of(resolve(Request.of(LAYER)).plan), lambda: len(list((own / "notes").iterdir()))
    for process, expected in enumerate((3, 6, 7)):      # of the six of two the third keeps four
        notes._kept.clear()
        for number in range(5):
            notes.keep({"request": [process, number]}, text)
        assert count() == expected
        assert notes.find({"request": [process, 2]}) is not None and notes.find({"request": [process, 3]}) is None


def test_old_notes_are_trimmed(own, monkeypatch):
    monkeypatch.setattr(cache_disk, "MOST_NOTES", 2)
    cache = notes._cache()
    names = [32 * str(number) for number in range(4)]
    for number, name in enumerate(names):
        cache.note(name, number)
        os.utime(own / "notes" / f"{name}.json", (1000 + number, 1000 + number))
    mine = own / "notes" / "shopping.json"
    mine.write_text("milk")
    os.utime(mine, (5, 5))
    cache.trim(2**40)
    assert {path.stem for path in (own / "notes").iterdir()} == {*names[2:], "shopping"}
    assert cache.noted(names[3]) == 3 and cache.noted(names[0]) is None
    cache.clear()
    assert list((own / "notes").iterdir()) == [mine]


@pytest.mark.thin(2)
@pytest.mark.parametrize("number", range(8))
def test_a_plan_is_made_again_by_its_choice(number):
    """What a noted kernel's plan is made from, its algorithm and plan values, gives the plan that was noted."""
    choose = drawn.numpy_choose(settings.generator(77, number))
    made = 0
    for _ in range(12):
        found = drawn.draw_layer_and_case(choose)
        if found is None:
            continue
        case, layer = found
        request = Request.of(layer, algorithm=case.algorithm, epilogue=case.epilogue)
        try:
            plan = resolve(request).plan
        except UnsupportedSpec:
            continue
        noted = Text.noted(json.loads(json.dumps(Text.of(plan).to_note())))
        assert (noted.spec, noted.program) == (plan.spec, plan.program)
        again = resolve(replace(request, algorithm=noted.spec.algorithm, numerics=noted.spec.numerics,
                                settings=settings_of(noted.settings))).plan
        assert again == plan and Text.of(again).identity == noted.identity
        made += 1
    assert made > 3


def test_a_kernel_from_a_note_computes(own):
    x, w = np.arange(99, dtype=np.float32).reshape(1, 1, 9, 11), np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    first = warpconv.conv2d(x, w, padding=1, device="cpu")
    conv.clear()
    np.testing.assert_array_equal(warpconv.conv2d(x, w, padding=1, device="cpu"), first)
