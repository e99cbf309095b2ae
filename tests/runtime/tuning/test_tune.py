"""``warpconv tune`` end to end on the CPU device: the space, the search, the checks, resuming."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import sys

import numpy as np
import pytest

import warpconv
from tests.volumes import Volume
from warpconv.codegen.border import Border
from warpconv.codegen.errors import ArgumentError, CompileError, DeviceError, FileError, ToolNotFound, UnsupportedSpec
from warpconv.codegen.hardware import DEFAULT_ARCH, Arch
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.render import generator_digest
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue
from warpconv.runtime.accuracy.reference import reference
from warpconv.runtime.tuning import clock, files, search, session, tune
from warpconv.runtime.tuning.choice import Table
from warpconv.runtime.tuning.operands import Judge, Operands
from warpconv.runtime.tuning.records import Outcome
from warpconv.runtime.tuning.space import Space, expand

SMALL = ConvShape(n=2, c=2, h=11, w=21, k=2, r=3, s=2, padding=1)
FEW = {"block_size_x": "16,32,64", "k_tile": "1..2"}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(clock, "SAMPLES", 4)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tuning.json"


def tuned(path, **changes):
    return tune(SMALL, **{**dict(device="cpu", algorithms=("direct",), sets=FEW, database=path), **changes})


# ---- the space

def test_lists_and_ranges_of_plan_values():
    assert expand("x", "7,14, 28") == ["7", "14", "28"] and expand("x", "packed") == ["packed"]
    assert expand("x", "1..4") == ["1", "2", "3", "4"] and expand("x", "8..64..28,8") == ["8", "36", "64"]
    for text in ("", "1,,2", "4..1", "1..9..0", "1..99999"):
        with pytest.raises(ArgumentError) as caught:
            expand("x", text)
        assert caught.value.argument == "set x" and caught.value.hint


def test_the_space_is_every_algorithms_own_each_plan_once_the_default_first():
    found = Space(shape=SMALL, arch=DEFAULT_ARCH).configurations()
    assert {made.algorithm for made in found} == {name for name, row in ALGORITHMS.items() if not row.by_name}
    planned = [made for made in found if made.plan is not None]
    assert len({made.name for made in found}) == len(found) and all(m.reason is None for m in planned)
    assert all(made.reason for made in found if made.plan is None)
    for made in planned:
        assert dict(made.values) == made.plan.settings()
    first = next(made for made in found if made.algorithm == "reuse")
    assert first.options == ALGORITHMS["reuse"].defaults(first.plan.spec, SMALL) and len(planned) > 100


def test_what_a_space_does_not_vary_is_the_layers_own_default(monkeypatch):
    row = ALGORITHMS["direct"]

    def defaults(spec, shape):
        made = row.options(block_size_x=32)
        return made if shape is None else dataclasses.replace(made, block_size_y=shape.h, block_size_x=64)

    monkeypatch.setitem(ALGORITHMS, "direct", dataclasses.replace(
        row, defaults=defaults, space=lambda spec: [row.options(block_size_x=x) for x in (8, 16)]))
    found = Space(shape=SMALL, arch=DEFAULT_ARCH).configurations(("direct",))
    sizes = [(dict(made.values)["block_size_x"], dict(made.values)["block_size_y"]) for made in found]
    assert sizes == [(64, 11), (8, 11), (16, 11)]


def test_given_values_are_combined_over_the_defaults():
    found = Space(shape=SMALL, arch=DEFAULT_ARCH).configurations(("direct",), {**FEW, "block_size_y": "8"})
    combined = {(dict(m.values)["block_size_x"], dict(m.values)["k_tile"]) for m in found}
    assert combined == {(x, k) for x in (16, 32, 64) for k in (1, 2)}
    odd = Space(shape=SMALL, arch=DEFAULT_ARCH).configurations(("direct",), {"k_tile": "3"})
    assert odd[1].plan is None and "does not divide" in odd[1].reason
    for sets, argument in (({"nothing": "1"}, "set"), ({"block_size_x": "wide"}, "set block_size_x")):
        with pytest.raises(ArgumentError) as caught:
            Space(shape=SMALL, arch=DEFAULT_ARCH).configurations(("direct",), sets)
        assert caught.value.argument == argument
    with pytest.raises(ArgumentError):
        Space(shape=SMALL, arch=DEFAULT_ARCH).configurations(("magic",))


# ---- the order

@pytest.fixture
def space():
    made = Space(shape=SMALL, arch=DEFAULT_ARCH)
    return made, made.configurations(("direct",))


def all_of(strategy, cost=lambda made: 1.0):
    found = []
    while (made := strategy.ask()) is not None:
        found.append(made)
        strategy.tell(made, cost(made) if made.plan is not None else None)
    return found


def test_a_sweep_is_all_of_the_space_in_a_drawn_order_without_the_known(space):
    _, found = space
    known = {found[3].name: 1.0}
    first = [m.name for m in all_of(search.strategy("sweep", *space, known, 1))]
    assert sorted(first) == sorted(m.name for m in found if m.name not in known) and first[0] == found[0].name
    assert first == [m.name for m in all_of(search.strategy("sweep", *space, known, 1))]
    assert first != [m.name for m in all_of(search.strategy("sweep", *space, known, 2))]


def cost_of(made):
    values = dict(made.values)
    return 1 + abs(math.log2(values["block_size_x"] / 32)) + 3 * (values["k_tile"] != 2) + 0.1 * values["block_size_y"]


def test_the_search_proposes_nothing_twice_and_learns(space):
    pytest.importorskip("optuna", reason="the strategy tpe needs the extra tune")
    made, _ = space
    lists = {"block_size_x": "8..128..8", "block_size_y": "1..16", "k_tile": "1,2"}
    wide = made, made.configurations(("direct",), lists)
    tries, reached = 60, {"tpe": [], "sweep": []}
    for seed in range(5):
        for name in reached:
            strategy = search.strategy(name, *wide, {}, seed)
            costs, names = [], set()
            while len(costs) < tries and (proposed := strategy.ask()) is not None:
                assert proposed.name not in names
                names.add(proposed.name)
                cost = cost_of(proposed) if proposed.plan is not None else None
                strategy.tell(proposed, cost)
                costs += [cost] if cost is not None else []
            reached[name].append(sum(sorted(costs)[:10]))
    assert np.mean(reached["tpe"]) < np.mean(reached["sweep"])


def test_the_search_starts_from_what_is_known(space):
    pytest.importorskip("optuna", reason="the strategy tpe needs the extra tune")
    known = {made.name: cost_of(made) for made in space[1] if made.plan is not None}
    found = all_of(search.strategy("tpe", *space, known, 0))
    assert not {made.name for made in found} & set(known)


def test_without_its_library_the_search_names_the_extra(space, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ToolNotFound, match=r"warpconv\[tune\]"):
        search.strategy("tpe", *space, {}, 0)
    with pytest.raises(ArgumentError, match="sweep, tpe"):
        search.strategy("luck", *space, {}, 0)


# ---- the judge

JUDGED = [SMALL, dataclasses.replace(SMALL, layout="NHWC"),
          ConvShape(n=2, c=6, h=13, w=9, k=4, r=3, s=4, stride=(2, 1), padding=((2, 0), (1, 3)), dilation=(1, 2),
                    groups=2),
          ConvShape(n=1, c=1, h=300, w=400, k=1, r=5, s=5, padding=2),
          dataclasses.replace(SMALL, dtype="float16"), dataclasses.replace(SMALL, dtype="bfloat16", layout="NHWC"),
          *(ConvShape(n=2, c=2, h=5, w=9, k=2, r=3, s=4, padding=((7, 1), (2, 12)), padding_mode=mode,
                      padding_value=-3.5 if mode is Border.CONSTANT else 0.0) for mode in Border)]


def right(operands):
    """The layer's output by the whole-layer reference, in the layout's order and the layer's element type."""
    shape, nhwc = operands.shape, operands.shape.layout.value == "NHWC"
    x = operands.x.astype(np.float32)
    logical = dataclasses.replace(shape, layout="NCHW", dtype="float32")
    bias = None if operands.bias is None else operands.bias.astype(np.float32)
    made = reference(x.transpose(0, 3, 1, 2) if nhwc else x, operands.w.astype(np.float32), logical, bias=bias,
                     epilogue=operands.epilogue).output
    return np.ascontiguousarray(made.transpose(0, 2, 3, 1) if nhwc else made).astype(operands.x.dtype)


VOLUME = ConvShape(n=2, c=4, d=5, h=9, w=8, k=4, t=3, r=2, s=3, padding=1)
VOLUMES = [VOLUME, ConvShape(n=1, c=6, d=9, h=13, w=7, k=4, t=2, r=3, s=4, stride=(2, 1, 3), groups=2, layout="NHWC",
                             padding=((1, 2), (0, 0), (2, 1)), dilation=(1, 3, 1), padding_mode="reflect"),
           dataclasses.replace(VOLUME, layout="NHWC", dtype="float16"),
           ConvShape(n=1, c=1, d=40, h=60, w=70, k=1, t=3, r=3, s=3, padding=1, padding_mode="constant",
                     padding_value=2.0)]


def right_of_volumes(operands):
    """The same of volumes, which tests/volumes.py sums tap by tap."""
    shape, last = operands.shape, operands.shape.layout.value == "NHWC"
    x = np.moveaxis(operands.x, -1, 1) if last else operands.x
    made = Volume(shape, x, operands.w, np.zeros(0), np.zeros(0)).forward(x, operands.w)
    if Epilogue.BIAS in operands.epilogue:
        made = np.maximum(made + operands.bias.astype("d").reshape(-1, 1, 1, 1), 0)
    return np.ascontiguousarray(np.moveaxis(made, 1, -1) if last else made).astype(operands.x.dtype)


@pytest.mark.parametrize("shape", [*JUDGED, *VOLUMES], ids=str)
@pytest.mark.parametrize("steps", [(), (Epilogue.BIAS, Epilogue.RELU)])
def test_right_results_pass_and_one_wrong_output_does_not(shape, steps):
    operands, rng = Operands.draw(shape, steps, 5), random.Random(7)
    judge, result = Judge(operands, 5), (right_of_volumes if shape.is_volume else right)(operands)
    assert judge.fault(result) is None and judge.fault(result) is None
    for wrong in (np.nan, np.inf, 100.0):
        for _ in range(20):
            bad = result.copy()
            bad.reshape(-1)[rng.randrange(bad.size)] = wrong
            assert judge.fault(bad) is not None
    assert judge.fault(operands.poisoned()) is not None
    assert judge.fault(np.flip(result, 2).copy()) is not None
    assert judge.fault((result.astype(np.float64) * 1.02).astype(result.dtype)) is not None


# ---- sessions

def test_a_volume_is_tuned_and_its_choice_is_taken(path, monkeypatch):
    """By the algorithms that serve volumes alone, each checked and timed; planning takes the quickest."""
    found = Space(shape=VOLUME, arch=DEFAULT_ARCH).configurations()
    assert {made.algorithm for made in found} == {"volume", "mma", "wgmma"}
    done = tune(VOLUME, device="cpu", algorithms=("volume",), sets={"rows": "1,2", "k_tile": "1,2"}, database=path)
    assert done.tried == {Outcome.TIMED: 4} and done.best.algorithm == "volume"
    again = tune(VOLUME, device="cpu", algorithms=("volume",), sets={"rows": "1,2", "k_tile": "1,2"}, database=path)
    assert not again.tried and again.skipped == 4
    table = Table(files.read(path), done.subject.arch, done.subject.device)
    made = warpconv.plan_layer(VOLUME, tuning=table, arch=Arch.parse(done.subject.arch))
    assert dict(done.best.values) == made.settings()
    monkeypatch.setattr(session.Judge, "fault", lambda self, result: "is wrong")
    bad = tune(VOLUME, device="cpu", algorithms=("volume",), sets={"rows": "2"}, database=path, again=True)
    assert bad.tried == {Outcome.WRONG: 1}

def test_every_configuration_is_kept_and_the_next_session_goes_on(path):
    first = tuned(path, configurations=2)
    assert first.tried == {Outcome.TIMED: 2} and first.skipped == 0
    second = tuned(path)
    assert second.skipped == 2 and second.tried[Outcome.TIMED] >= 3
    third = tuned(path)
    assert third.tried == {} and third.skipped == len(third.database.of(third.subject))
    assert third.best.us == min(t.us for t in third.database.of(third.subject).values())
    stored = files.read(path)
    assert stored == third.database and stored.copies[third.subject] > 0
    where = {stored.origins[t.origin].generator for t in stored.of(third.subject).values()}
    assert where == {generator_digest(t.algorithm) for t in stored.of(third.subject).values()}
    document = json.loads(path.read_text())
    for data in document["origins"].values():
        assert data["device"] == "CPU device" and data["generator"] in where
        assert all(data[name] for name in ("arch", "driver", "cuda", "compiler", "warpconv", "date"))
    assert tuned(path, again=True).tried[Outcome.TIMED] == third.skipped


def test_another_generator_that_emits_the_same_text_times_nothing_again(path, monkeypatch):
    count = tuned(path).tried[Outcome.TIMED]
    monkeypatch.setattr(session, "generator_digest", lambda algorithm: "another")
    assert tuned(path).tried == {}
    text = path.read_text()
    for timing in files.read(path).of(tuned(path).subject).values():
        text = text.replace(timing.source, "0" * 32)
    path.write_text(text)
    assert tuned(path).tried == {Outcome.TIMED: count}


def test_declined_failed_and_wrong_configurations_are_kept_with_their_reason(path, monkeypatch):
    build, host = clock.CpuClock.build, clock.CpuClock.host
    results = []

    def failing(self, plan):
        if plan.options.block_size_x == 32:
            log = "note\nx.cu(3): error: no such thing\n"
            raise CompileError("it does not compile", source="", options=(), log=log)
        build(self, plan)

    def wrong_the_second_time(self, array):
        results.append(array)
        if len(results) == 2:
            array = array.copy()
            array[-1, -1, -1, -1] += 1
        return host(self, array)

    monkeypatch.setattr(clock.CpuClock, "build", failing)
    monkeypatch.setattr(clock.CpuClock, "host", wrong_the_second_time)
    result = tuned(path, sets={"block_size_x": "16,32,64", "k_tile": "1,3"})
    assert result.tried[Outcome.DECLINED] == 3 and result.tried[Outcome.FAILED] >= 1
    assert result.tried[Outcome.WRONG] == 1
    kept = result.database.of(result.subject).values()
    reasons = {outcome: {t.reason for t in kept if t.outcome is outcome} for outcome in Outcome}
    assert reasons[Outcome.DECLINED] == {"k_tile = 3 does not divide K/groups = 2"}
    assert reasons[Outcome.FAILED] == {"it does not compile: x.cu(3): error: no such thing"}
    (wrong,) = reasons[Outcome.WRONG]
    assert wrong.startswith("y[1, 1, ") and "should be" in wrong
    assert result.best.outcome is Outcome.TIMED and reasons[Outcome.TIMED] == {None}
    assert tuned(path, sets={"block_size_x": "16,32,64", "k_tile": "1,3"}).tried == {}


def test_a_gpu_that_gives_up_ends_the_session_and_the_next_goes_on(path, monkeypatch):
    class Lost(Exception):
        pass

    def run(*_, **__):
        raise Lost("an illegal memory access")

    def synchronize(self):
        raise Lost("still lost")

    with monkeypatch.context() as broken:
        broken.setattr(session._Session, "_note_copy", lambda *_: None)
        broken.setattr(clock.CpuClock, "errors", (Lost,))
        broken.setattr(session._Bench, "measure", run)
        broken.setattr(clock.CpuClock, "synchronize", synchronize)
        with pytest.raises(DeviceError, match="goes on with the next"):
            tuned(path)
    assert [t.reason for t in files.read(path).of(tuned(path, configurations=1).subject).values()
            if t.outcome is Outcome.FAILED] == ["an illegal memory access"]


def test_nothing_is_timed_where_the_results_could_not_be_kept(tmp_path, path, monkeypatch):
    monkeypatch.setattr(session, "open_clock", lambda target: pytest.fail("a device was started"))
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "file" / "tuning.json", tmp_path / "damaged.json"):
        if bad.name == "damaged.json":
            bad.write_text("{}")
        with pytest.raises(FileError):
            tuned(bad)
    for changes in ({"budget": 0.0}, {"budget": math.nan}, {"configurations": 0}):
        with pytest.raises(ArgumentError):
            tuned(path, **changes)


def test_a_layer_that_nothing_serves_and_an_empty_budget(path):
    with pytest.raises(UnsupportedSpec, match="int8"):
        tune(dataclasses.replace(SMALL, dtype="int8"), device="cpu", database=path)
    assert tuned(path, budget=1e-9).tried == {} and not path.exists()
