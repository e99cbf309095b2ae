"""One pass from request to plan: what the steps give one after the other is what all together give; nothing is planned
twice."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

from tests import drawn, settings
from warpconv.codegen import registry
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, UnsupportedSpec
from warpconv.codegen.numerics import Accumulator, Numerics, Precision
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.request import Request, of_pixels
from warpconv.codegen.resolution import Resolution, plan, resolve
from warpconv.codegen.select import explain, plan_layer, select
from warpconv.codegen.shape import ConvShape

LAYER = ConvShape(c=1, h=2048, w=2048, k=1, r=5, s=5)
DRAWN = 24


class Table:
    """A tuning table with one answer for every layer."""

    def __init__(self, algorithm, values):
        self.answer = algorithm, values

    def best(self, shape, arch):
        return self.answer

    def origin(self, shape, arch):
        return "measured here"


@pytest.fixture
def planned(monkeypatch):
    """How often each algorithm's planner ran."""
    count = Counter()

    def counting(row):
        def made(spec, options):
            count[row.name] += 1
            return row.plan(spec, options)
        return dataclasses.replace(row, plan=made)

    for name, row in list(registry.ALGORITHMS.items()):
        monkeypatch.setitem(registry.ALGORITHMS, name, counting(row))
    return count


def same(one: KernelPlan, other: KernelPlan):
    assert one.spec == other.spec and one.settings() == other.settings() and one.program == other.program
    assert render(one).text == render(other).text


def test_the_steps_give_what_all_at_once_gives():
    chosen = select(LAYER)
    assert dict(chosen.settings)["vector"] == 4, "sizes are not lost on the way"
    same(plan(chosen), plan_layer(LAYER))
    values = {"sub_block_rows": 20}
    same(plan(chosen, values), plan_layer(LAYER, algorithm=chosen.algorithm, settings=values))
    limited = select(ConvShape(n=2, c=8, h=30, w=30, k=4, r=3, s=3), workspace_limit=0)
    same(plan(limited), plan_layer(limited.layer, workspace_limit=0))


@pytest.mark.thin(6)
@pytest.mark.parametrize("number", range(DRAWN))
def test_drawn_layers_one_step_after_the_other(number):
    choose = drawn.numpy_choose(settings.generator(number))
    found = drawn.draw_layer_and_case(choose)
    assert found is not None
    case, shape = found
    known = {"epilogue": case.epilogue, "numerics": case.numerics}
    chosen = select(shape, **known)
    same(plan(chosen), plan_layer(shape, **known))
    same(plan(chosen.spec, dict(chosen.settings), shape), plan_layer(shape, **known))
    if case.algorithm == "auto":
        return
    named = case.plan(shape=shape)
    same(resolve(Request.of(shape, algorithm=case.algorithm, settings=dict(case.values), **known)).plan, named)
    table = Table(case.algorithm, named.settings())
    tuned = plan_layer(shape, tuning=table, epilogue=case.epilogue) if case.numerics is Numerics.FLOAT32 else None
    if tuned is not None:
        same(plan(select(shape, tuning=table, epilogue=case.epilogue)), tuned)
        assert explain(shape, tuning=table, epilogue=case.epilogue)[0].plan.settings() == tuned.settings()


def test_measured_choices_are_kept_on_the_way():
    table = Table("reuse", {"exchange": "packed", "sub_block_rows": 14})
    request = Request.of(LAYER)
    resolution = resolve(request, table)
    assert resolution.tuned and not resolve(request).tuned
    assert resolution.candidates[0].reason == "measured here"
    assert [c.algorithm for c in resolution.candidates].count("reuse") == 1
    chosen = select(LAYER, tuning=table)
    assert chosen.algorithm == "reuse" and dict(chosen.settings)["sub_block_rows"] == 14
    same(plan(chosen), plan_layer(LAYER, tuning=table))


def test_an_algorithm_is_planned_at_most_once(planned):
    resolution = resolve(Request.of(LAYER))
    assert max(planned.values()) == 1 and not any(registry.ALGORITHMS[name].by_name for name in planned)
    assert resolution.candidates and resolution.selection
    assert max(planned.values()) == 1 and len(resolution.candidates) == len(registry.ALGORITHMS)


def test_a_named_algorithm_and_a_measured_choice_are_planned_alone(planned):
    resolve(Request.of(LAYER, algorithm="direct", settings={"k_tile": 1}))
    assert planned == {"direct": 1}
    resolve(Request.of(LAYER), Table("reuse", {}))
    assert planned == {"direct": 1, "reuse": 1}


def test_plan_values_choose_among_the_algorithms_that_offer_them(planned):
    made = resolve(Request.of(LAYER, settings={"exchange": "packed"})).plan
    assert made.settings()["exchange"] == "packed" and max(planned.values()) == 1
    with pytest.raises(ArgumentError, match="plan value not offered"):
        resolve(Request.of(LAYER, settings={"exchange": "telepathy"}))
    with pytest.raises(ArgumentError, match="no algorithm has all these plan values"):
        resolve(Request.of(LAYER, settings={"telepathy": 1}))


def test_requests_are_keys():
    one = Request.of(LAYER, settings={"vector": 4, "prefetch_rows": 2}, epilogue=["relu"])
    other = Request.of(dataclasses.replace(LAYER), settings={"prefetch_rows": np.int64(2), "vector": 4},
                       epilogue=["relu"])
    assert one == other and hash(one) == hash(other)
    assert one != Request.of(LAYER, settings={"vector": 2, "prefetch_rows": 2}, epilogue=["relu"])
    assert Request.of(LAYER.with_batch(3)).for_any_batch == Request.of(LAYER)


@pytest.mark.parametrize("error, arguments", [
    (ArgumentError, {"settings": {"vector": 4.0}}), (ArgumentError, {"settings": {"vector": [4]}}),
    (ArgumentTypeError, {"settings": [("vector", 4)]}), (ArgumentTypeError, {"algorithm": 3}),
    (ArgumentTypeError, {"workspace_limit": "1"}), (ArgumentError, {"numerics": "float8"})])
def test_what_is_no_request(error, arguments):
    with pytest.raises(error):
        Request.of(LAYER, **arguments)
    with pytest.raises(ArgumentTypeError):
        Request.of("layer")


def test_nothing_serves_arithmetic_that_elements_do_not_have():
    request = Request.of(LAYER, numerics="float16")
    with pytest.raises(UnsupportedSpec, match="half arithmetic"):
        resolve(request)
    assert not any(answer.supported for answer in Resolution(request).candidates)


def test_numerics_are_pairs():
    assert {(n.value, n.accumulator, n.precision) for n in Numerics} == {
        (a.value, a, Precision.FLOAT32) for a in Accumulator} | {
            (p.value, Accumulator.FLOAT32, p) for p in Precision}
    assert Numerics.of(Accumulator.FLOAT16) is Numerics.FLOAT16 is Numerics("float16")
    with pytest.raises(ArgumentError):
        Numerics.of(Accumulator.FLOAT16, "tf32")


def test_a_volume_is_no_image_of_a_single_pixel():
    """Its planes lie between the channels, whose order is another one then."""
    pixel = ConvShape(n=2, c=16, h=1, w=1, k=16, r=1, s=1, dtype="float16")
    volume = dataclasses.replace(pixel, d=3, t=1, stride=1, dilation=1, padding=0)
    assert of_pixels(pixel).layout is Layout.NHWC and of_pixels(volume) is volume
