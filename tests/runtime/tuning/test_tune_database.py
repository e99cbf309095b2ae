"""The database of timings: its text, merging, damage, writers at the same time, and the table that planning takes."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from warpconv.codegen.border import Border
from warpconv.codegen.errors import FileError
from warpconv.codegen.hardware import Arch
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.serialise import plan_digest
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Numerics
from warpconv.runtime.tuning import choice, files
from warpconv.runtime.tuning.records import Database, Origin, Outcome, Subject, Timing, values_of

LAYER = ConvShape(n=4, c=2, h=40, w=50, k=2, r=3, s=3, padding=1, groups=2)
ARCH = Arch(9, 0)


def origin(date="2026-11-20 10:00", device="NVIDIA H200", **changes):
    return Origin(**{**dict(device=device, arch="sm_90", driver="570.1", cuda="13.0", compiler="nvrtc 13.0",
                            warpconv="0.1.0", generator="0" * 32, date=date), **changes})


def subject(shape=LAYER, device="NVIDIA H200", **changes):
    return Subject(device=device, arch="sm_90", shape=shape, **changes)


def timing(us, where, algorithm="direct", **values):
    return Timing(algorithm=algorithm, values=values_of(values), outcome=Outcome.TIMED, us=us, low=us, high=us,
                  samples=20, origin=where.id, spills=0, registers=40, source="5" * 32)


def database(*rows):
    """Rows (subject, timing, origin)."""
    made = Database()
    for row in rows:
        made.add(*row)
    return made


def drawn(rng, dates):
    """A database of drawn timings; each configuration of each database has a date of its own."""
    made = Database()
    for _ in range(rng.randint(0, 12)):
        where = origin(date=next(dates))
        shape = LAYER.with_batch(rng.randint(1, 2))
        made.add(subject(shape), timing(rng.uniform(1, 9), where, block_size_x=rng.choice((8, 16, 32))), where)
    return made


def test_text_is_read_back_sorted_and_has_a_line_for_each_configuration():
    where, other = origin(), origin(date="2026-11-21 09:00", compiler="nvcc 13.0")
    made = database((subject(), timing(3.5, where, block_size_x=32), where),
                    (subject(epilogue=(Epilogue.BIAS, Epilogue.RELU)), timing(4.5, other, block_size_x=8), other),
                    (subject(dataclasses.replace(LAYER, padding=((1, 0), (2, 1)), dtype="bfloat16", layout="NHWC")),
                     Timing(algorithm="reuse", values=(), outcome=Outcome.DECLINED, origin=where.id, reason="too wide"),
                     where))
    made.copies[subject()] = 1.25
    text = files.text_of(made)
    assert files.parse(text) == made
    assert files.text_of(files.parse(text)) == text and len(json.loads(text)["layers"]) == 3
    backwards = Database(timings=dict(reversed(made.timings.items())), origins=dict(reversed(made.origins.items())),
                         copies=made.copies)
    assert files.text_of(backwards) == text
    for row in ("3.5", "4.5", "too wide"):
        assert sum(row in line for line in text.splitlines()) == 1
    assert json.loads(text)["origins"][where.id]["driver"] == "570.1"


def test_merging_is_a_union_with_the_newest_of_each_configuration():
    rng = random.Random(3)
    for _ in range(50):
        dates = iter([f"2026-{m:02}-{d:02} 00:00" for m in range(1, 13) for d in rng.sample(range(1, 29), 28)])
        parts = [drawn(rng, dates) for _ in range(3)]
        texts = [files.text_of(part) for part in parts]
        merged = []
        for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
            made = Database()
            for place in order:
                made.take(parts[place])
            merged.append(files.text_of(made))
        assert len(set(merged)) == 1 and [files.text_of(part) for part in parts] == texts
        newest = {}
        for part in parts:
            for layer, found in part.timings.items():
                for name, row in found.items():
                    newest[layer, name] = max(newest.get((layer, name), ("", 0.0)), (part.date(row), row.us))
        result = files.parse(merged[0])
        assert {(layer, name): (result.date(row), row.us) for layer, found in result.timings.items()
                for name, row in found.items()} == newest


def test_keeping_the_best_forgets_the_rest():
    where, old = origin(), origin(date="2020-01-01 00:00")
    made = database((subject(), timing(3.0, where, block_size_x=32), where),
                    (subject(), timing(2.0, where, block_size_x=64), where),
                    (subject(), timing(9.0, old, block_size_x=8), old))
    made.keep_best(1)
    assert [t.us for t in made.timed(subject())] == [2.0] and set(made.origins) == {where.id}


DAMAGE = {
    "empty": lambda text: "", "cut off": lambda text: text[:-9], "no JSON": lambda text: "hello",
    "a list": lambda text: "[]",
    "another format": lambda text: text.replace("warpconv tuning", "else"),
    "a later schema": lambda text: text.replace('"schema": 1', '"schema": 99'),
    "no layer": lambda text: text.replace('"layer":', '"leyer":'),
    "an impossible layer": lambda text: text.replace('"groups": 2', '"groups": 3'),
    "a time that is text": lambda text: text.replace('"us": 3.5', '"us": "quick"'),
    "a negative time": lambda text: text.replace('"us": 3.5', '"us": -3.5'),
    "not a number": lambda text: text.replace('"us": 3.5', '"us": NaN'),
    "an unknown origin": lambda text: text.replace(f'"origin": "{origin().id}"', '"origin": "0"'),
    "an unknown outcome": lambda text: text.replace('"timed"', '"perhaps"'),
    "a list as plan value": lambda text: text.replace('"block_size_x": 32', '"block_size_x": [32]'),
    "an unknown field": lambda text: text.replace('"samples"', '"simples"'),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_a_typed_error_and_nothing_is_lost(tmp_path, damage):
    path, where = tmp_path / "tuning.json", origin()
    good = database((subject(), timing(3.5, where, block_size_x=32), where))
    files.write(path, good)
    files.write(path, good)
    damaged = DAMAGE[damage](path.read_text())
    assert damaged != path.read_text()
    path.write_text(damaged)
    with pytest.raises(FileError) as caught:
        files.read(path)
    assert caught.value.value == str(path) and "tuning.json.previous" in caught.value.hint
    assert files.read(files.previous(path)) == good
    with pytest.raises(FileError) as refused:
        files.add_to(path, good)
    rescued = Path(refused.value.hint.split()[3].rstrip(";"))
    assert files.read(rescued) == good and path.read_text() == damaged
    rescued.unlink()


def test_a_save_replaces_the_file_at_once_and_keeps_the_one_before(tmp_path, monkeypatch):
    path, where = tmp_path / "deep" / "tuning.json", origin()
    first = database((subject(), timing(3.5, where, block_size_x=32), where))
    second = database((subject(), timing(2.5, where, block_size_x=64), where))
    files.add_to(path, first)
    both = files.add_to(path, second)
    assert files.read(path) == both and len(both.of(subject())) == 2
    assert files.read(files.previous(path)) == first

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    third = database((subject(), timing(1.5, where, block_size_x=128), where))
    with pytest.raises(FileError, match="No space left") as caught:
        files.add_to(path, third)
    monkeypatch.undo()
    rescued = Path(caught.value.hint.split()[3].rstrip(";"))
    assert files.read(path) == both and files.read(rescued) == third
    rescued.unlink()
    assert sorted(p.name for p in path.parent.iterdir()) == ["tuning.json", "tuning.json.lock", "tuning.json.previous"]


def test_a_place_that_cannot_be_written_is_a_typed_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="WARPCONV_TUNE_DB"), files.locked(tmp_path / "file" / "tuning.json"):
        pass


WRITER = """
import sys
from pathlib import Path
from tests.runtime.tuning.test_tune_database import database, origin, subject, timing
from warpconv.runtime.tuning import files
where = origin()
for number in range(15):
    files.add_to(Path(sys.argv[1]), database((subject(), timing(1.0 + number, where, sys.argv[2], x=number), where)))
"""


@pytest.mark.long
def test_two_processes_writing_at_once_lose_nothing(tmp_path):
    path = tmp_path / "tuning.json"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], cwd=Path(__file__).parents[3])
               for name in ("direct", "reuse", "third")]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    found = files.read(path).of(subject())
    assert set(found) == {(name, (("x", number),)) for name in ("direct", "reuse", "third") for number in range(15)}


# ---- the table

def test_the_quickest_of_the_same_layer_on_the_same_device_is_chosen():
    where = origin()
    table = choice.Table(database((subject(), timing(3.5, where, block_size_x=32), where),
                                  (subject(), timing(2.5, where, block_size_x=16), where)), ARCH, "NVIDIA H200")
    assert table.best(LAYER, ARCH) == ("direct", {"block_size_x": 16})
    assert table.origin(LAYER, ARCH) == "measured: 2.5 us on NVIDIA H200, 2026-11-20"
    assert table.best(LAYER, Arch(8, 0)) is None and table.origin(LAYER, Arch(8, 0)) == "not measured on NVIDIA H200"
    for other in (dataclasses.replace(LAYER, w=51), dataclasses.replace(LAYER, padding=0),
                  dataclasses.replace(LAYER, layout="NHWC"), dataclasses.replace(LAYER, dtype="float16")):
        assert table.best(other, ARCH) is None


def test_another_device_of_the_architecture_and_other_arithmetic_do_not_count():
    where = origin(device="NVIDIA H100")
    rows = database((subject(device="NVIDIA H100"), timing(3.5, where, block_size_x=32), where))
    assert choice.Table(rows, ARCH, "NVIDIA H200").best(LAYER, ARCH) is None
    assert choice.Table(rows, ARCH).best(LAYER, ARCH) is not None
    half = database((subject(numerics=Numerics.FLOAT16), timing(3.5, origin(), block_size_x=32), origin()))
    assert choice.Table(half, ARCH).best(LAYER, ARCH) is None


def test_the_choice_is_the_same_for_every_batch():
    where = origin()
    rows = [(subject(LAYER.with_batch(n), epilogue=steps), timing(us, where, block_size_x=x), where)
            for n, steps, us, x in ((1, (), 0.5, 8), (16, (Epilogue.RELU,), 4.0, 16), (16, (), 5.0, 32),
                                    (2, (), 1.0, 64))]
    for order in (rows, rows[::-1]):
        table = choice.Table(database(*order), ARCH, "NVIDIA H200")
        for n in (1, 2, 3, 16, 500):
            assert table.best(LAYER.with_batch(n), ARCH)[1] == {"block_size_x": 32}
        assert table.origin(LAYER.with_batch(3), ARCH).endswith("2026-11-20, for N = 16")
        assert len({plan_digest(plan_layer(LAYER.with_batch(n), tuning=table)) for n in (1, 3, 16)}) == 1


def test_a_layer_whose_choice_knows_its_batch_has_the_entry_of_batches_like_it():
    """One image of a dense layer of 16 bits is not served as 32 are; batches that were not measured as the nearest."""
    dense = dataclasses.replace(LAYER, c=64, k=64, groups=1, dtype="float16", layout="NHWC")
    where = origin()
    table = choice.Table(database((subject(dense.with_batch(32)), timing(5.0, where, block_size_x=32), where),
                                  (subject(dense.with_batch(2)), timing(1.0, where, block_size_x=8), where)),
                         ARCH, "NVIDIA H200")
    found = {n: (table.best(dense.with_batch(n), ARCH) or ("", {}))[1] for n in (1, 2, 3, 4, 32, 63, 64, 500)}
    few, many = {"block_size_x": 8}, {"block_size_x": 32}
    assert found == {1: few, 2: few, 3: few, 4: few, 32: many, 63: many, 64: many, 500: many}
    assert table.origin(dense.with_batch(40), ARCH).endswith("for N = 32")
    alone = choice.Table(database((subject(dense.with_batch(32)), timing(5.0, where, block_size_x=32), where)), ARCH)
    assert [alone.best(dense.with_batch(n), ARCH) is None for n in (1, 4, 7, 8, 16, 64)] == [True] * 3 + [False] * 3


# ---- a border without an entry

PLANE = ConvShape(c=1, h=512, w=512, k=1, r=5, s=5, padding="same")
BORDERS = [mode for mode in Border if mode is not Border.ZEROS]


def of_border(shape: ConvShape, mode: Border) -> ConvShape:
    return dataclasses.replace(shape, padding_mode=mode, padding_value=0.5 if mode is Border.CONSTANT else 0.0)


@pytest.mark.parametrize("mode", BORDERS, ids=lambda mode: mode.value)
def test_a_border_without_an_entry_has_the_choice_of_zeros(mode):
    where = origin()
    values = {"loads": "cached", "prefetch_rows": 8, "stage_steps": 1, "sub_block_rows": 14, "min_blocks": 6}
    rows = [(subject(PLANE), timing(2.5, where, "wide", **values), where)]
    table, bordered = choice.Table(database(*rows), ARCH, "NVIDIA H200"), of_border(PLANE, mode)
    assert table.best(bordered, ARCH) == ("wide", values)
    assert table.origin(bordered, ARCH) == "measured: 2.5 us on NVIDIA H200, 2026-11-20, with a border of zeros"
    assert table.origin(PLANE, ARCH) == "measured: 2.5 us on NVIDIA H200, 2026-11-20"
    made = plan_layer(bordered, tuning=table)
    assert values.items() <= made.settings().items() and made.settings() != plan_layer(bordered).settings()
    # its own entry goes before, and another border's is of no use to it
    other = next(other for other in BORDERS if other is not mode)
    rows.append((subject(of_border(PLANE, other)), timing(9.0, where, "wide", sub_block_rows=20), where))
    assert choice.Table(database(*rows), ARCH).best(bordered, ARCH) == ("wide", values)
    rows.append((subject(bordered), timing(9.5, where, "wide", sub_block_rows=28), where))
    table = choice.Table(database(*rows), ARCH)
    assert table.best(bordered, ARCH) == ("wide", {"sub_block_rows": 28})
    assert table.origin(bordered, ARCH).endswith("2026-11-20") and table.best(PLANE, ARCH) == ("wide", values)


def test_a_border_of_one_value_has_the_entry_of_any_value():
    where = origin()
    measured = of_border(PLANE, Border.CONSTANT)
    table = choice.Table(database((subject(measured), timing(3.0, where, "wide", sub_block_rows=20), where)), ARCH)
    asked = dataclasses.replace(measured, padding_value=measured.padding_value + 2)
    assert table.best(asked, ARCH) == table.best(measured, ARCH) == ("wide", {"sub_block_rows": 20})
    assert table.origin(asked, ARCH) == f"{table.origin(measured, ARCH)}, with a border of {measured.padding_value:g}"
    assert table.best(of_border(PLANE, Border.REFLECT), ARCH) is None


def test_a_choice_of_zeros_that_does_not_serve_the_border_leaves_it_to_the_rule():
    """A plan value is unknown or does not go, and packed rows lie otherwise where pixels stand beside them."""
    where = origin()
    packed = ConvShape(n=32, c=96, h=56, w=56, k=96, groups=96, r=3, s=3, padding="same")
    for layer, algorithm, values in ((PLANE, "wide", {"no_such_value": 1}), (PLANE, "wide", {"vector": 3}),
                                     (packed, "wide", {"sub_block_rows": 28})):
        table = choice.Table(database((subject(layer), timing(2.5, where, algorithm, **values), where)), ARCH,
                             "NVIDIA H200")
        bordered = of_border(layer, Border.REFLECT)
        assert table.best(layer, ARCH) == (algorithm, values) and table.best(bordered, ARCH) is None
        assert table.origin(bordered, ARCH) == "not measured on NVIDIA H200"
        assert plan_layer(bordered, tuning=table) == plan_layer(bordered)


@pytest.mark.parametrize("algorithm, values", [
    ("direct", {"block_size_x": 4096}), ("direct", {"tile_of_old": 3}), ("algorithm_of_old", {}),
    ("direct", {"k_tile": 3})])
def test_a_choice_that_cannot_be_planned_any_more_leaves_it_to_the_rule(algorithm, values):
    where = origin()
    table = choice.Table(database((subject(), timing(1.0, where, algorithm, **values), where)), ARCH)
    assert plan_layer(LAYER, tuning=table) == plan_layer(LAYER)
    assert explain(LAYER, tuning=table) == explain(LAYER)


def test_explain_shows_the_measured_choice_first_with_its_origin():
    where = origin()
    table = choice.Table(database((subject(), timing(123.4, where, block_size_x=16, block_size_y=16), where)), ARCH)
    answers = explain(LAYER, tuning=table)
    assert answers[0].reason == "measured: 123.4 us on NVIDIA H200, 2026-11-20"
    assert answers[0].plan == plan_layer(LAYER, tuning=table) and answers[0].plan.options.block_size_x == 16
    assert sorted(a.algorithm for a in answers) == sorted(a.algorithm for a in explain(LAYER))
    assert answers[0].algorithm != explain(LAYER)[0].algorithm


def test_a_save_keeps_links_and_what_is_not_ours(tmp_path):
    real, link, where = tmp_path / "there" / "tuning.json", tmp_path / "tuning.json", origin()
    real.parent.mkdir()
    link.symlink_to(real)
    files.previous(real).write_text("mine")
    for us, size in ((3.5, 32), (2.5, 64)):
        files.add_to(link, database((subject(), timing(us, where, block_size_x=size), where)))
    assert link.is_symlink() and len(files.read(real).of(subject())) == 2
    assert files.previous(real).read_text() == "mine"
