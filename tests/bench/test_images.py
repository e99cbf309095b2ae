"""The study images on a fake device, the limits that it holds results to, and what its tables say of a run."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest

import bench.__main__ as main
import warpconv
from bench import harness, reference
from bench.devices import POISON, HostDevice
from bench.studies import image_gauss, image_layers, image_reference, image_tables, images
from bench.studies.image_layers import Batch, Row, Target
from tests import reference as tests_reference
from tests.bench.fakes import FakeDevice
from warpconv.codegen.border import Border
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.accuracy.finish import finish

HOST = HostDevice()


def exact_result(shape, steps, x, w, bias, residual):
    """What a kernel without rounding errors would store."""
    exact = reference.reference(HOST, x, w, shape, images=range(shape.n)).exact
    column = None if bias is None else bias.astype(float)[None, :, None, None]
    made = finish(exact, 0.0, steps, bias=column, residual=residual).value if steps else exact
    return np.rint(np.clip(made, *shape.y_dtype.limits)) if shape.y_dtype.is_integer else made


class ImageDevice(FakeDevice):
    """A device whose kernels are exact, plus ``wrong``."""

    def specialize(self, shape, plan):
        def kernel(x, w, bias=None, *, out=None, residual=None):
            out[...] = exact_result(shape, plan.spec.epilogue, x, w, bias, residual) + self.wrong
            return out
        return kernel


def exact_gaussian(x, sigma, output, truncate, radius, device):
    row = image_layers.Gaussian(sigma, radius, x.shape[-1])
    output[...] = image_gauss.two_passes(HOST, x[None, None], image_gauss.gaussian_taps(row)).exact[0, 0]
    return output


@pytest.fixture
def gaussian(monkeypatch):
    monkeypatch.setattr(warpconv, "gaussian_filter", exact_gaussian, raising=False)


# ---- the study

def test_from_end_to_end_on_a_fake_device(tmp_path, gaussian):
    found = main.run(images.STUDY, tmp_path, quick=True, device=ImageDevice())
    rows = [row for row in found.rows.values() if row["kind"] == "row"]
    assert {row["group"] for row in rows} == set(image_tables.TITLES)
    for row in rows:
        assert row["status"] == "ok" and row["ms"] > 0 and row["copy_ms"] > 0 and row["repeats"] >= 3, row
        assert row["of_copy"] == pytest.approx(row["copy_ms"] / row["ms"])
    for row in rows:
        base = {"borders": ("of_zeros", "zeros"), "epilogues": ("of_none", "none")}.get(row["group"])
        if base is not None:
            first = found.rows[f"{row['group']}/{row['batch']}/{base[1]}"]
            assert row[base[0]] == pytest.approx(row["of_copy"] / first["of_copy"])
    assert "no GPU" in found.rows["pixels/3x3/uint8, float weights"]["NPP_reason"]
    text = (tmp_path / "README.md").read_text()
    assert "| uint8, float weights, 3x3: times NPP's speed | 1.6 | - | - | - | 0 of 1 |" in text
    assert "## Borders against zeros" in text
    assert (tmp_path / "images.svg").exists() and (tmp_path / "images.csv").exists()
    before = json.loads((tmp_path / "images.json").read_text())["rows"]
    again = main.run(images.STUDY, tmp_path, quick=True, device=ImageDevice())
    assert {row["key"]: row for row in before if row["status"] == "ok"}.items() <= again.rows.items()


def test_what_is_not_there_yet_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(warpconv, "gaussian_filter", None, raising=False)
    row = Row("shout", image_layers.plane(20, 3), ("shout",), (Target("loud", "of_none", 0.9, None),))
    monkeypatch.setattr(images, "batches", lambda quick, trial: [Batch("epilogues", "a plane", (row,), "of_none")])
    found = main.run(images.STUDY, tmp_path, quick=True, device=ImageDevice()).rows
    assert found["gaussian/4096^2, sigma 1"]["status"] == "missing: warpconv.gaussian_filter"
    assert found["epilogues/a plane/shout"]["status"].startswith("missing: the epilogue shout: unknown epilogue step")
    text = (tmp_path / "README.md").read_text()
    assert "| loud | 0.9 | - | - | - | 0 of 1 | - | - |" in text and "missing: warpconv.gaussian_filter" in text


def test_wrong_kernels_are_not_timed_and_stop_nothing(tmp_path, monkeypatch):
    def shifted(*arguments, **options):
        exact_gaussian(*arguments, **options)[...] += 1e-3
    monkeypatch.setattr(warpconv, "gaussian_filter", shifted, raising=False)
    monkeypatch.setattr(ImageDevice, "wrong", 1.0)
    found = main.run(images.STUDY, tmp_path, quick=True, device=ImageDevice()).rows
    rows = [row for row in found.values() if row["kind"] == "row"]
    assert all(row["status"].startswith("WRONG") and "ms" not in row for row in rows)
    assert not any(target["met"] for row in rows for target in row["targets"])


@pytest.mark.long
def test_a_row_that_is_declined_leaves_the_others_their_base(tmp_path, gaussian, monkeypatch):
    real = images._plan

    def declined(context, row, tuning):
        if row.name == "reflect":
            raise UnsupportedSpec(None, "not today")
        return real(context, row, tuning)

    monkeypatch.setattr(images, "_plan", declined)
    found = main.run(images.STUDY, tmp_path, quick=True, device=ImageDevice()).rows
    assert found["borders/plane 4096^2, 3x3/reflect"]["status"] == "declined: not today"
    assert found["borders/plane 4096^2, 3x3/circular"]["of_zeros"] > 0
    monkeypatch.setattr(images, "_plan", real)
    again = main.run(images.STUDY, tmp_path, quick=True, device=ImageDevice()).rows     # zeros is timed again for it
    assert again["borders/plane 4096^2, 3x3/reflect"]["of_zeros"] > 0
    assert again["borders/plane 4096^2, 3x3/zeros"] == found["borders/plane 4096^2, 3x3/zeros"]


@pytest.mark.long
def test_every_row_has_a_plan_for_itself_and_for_its_trial():
    keys = []
    for trial in (False, True):
        for batch in image_layers.batches(False, trial):
            keys += [batch.key(row) for row in batch.rows]
            for row in batch.rows:
                context = SimpleNamespace(device=HOST)
                assert images._plan(context, row, None).program.entries
                assert batch.rows[0].shape.input_shape == row.shape.input_shape
                assert not trial or row.shape.bytes_moved < 300_000
    assert len(set(keys)) == len(keys) / 2      # each key once in either
    assert [g.reach for g in image_layers.gaussians(False, False)] == [4, 8, 16, 1, 2, 3]


# ---- limits

@pytest.mark.parametrize("mode", list(Border), ids=lambda mode: mode.value)
def test_the_reference_has_every_border(mode):
    shape = ConvShape(n=2, c=2, k=2, groups=2, h=5, w=4, r=3, s=5, padding=((6, 1), (2, 9)), padding_mode=mode,
                      padding_value=0.75 if mode is Border.CONSTANT else 0)
    x, w = HOST.random(shape.input_shape, 1), HOST.random(shape.weight_shape, 2)
    found = harness.reference(HOST, x, w, shape)
    wanted = tests_reference.expected(x, w, shape)
    assert np.allclose(found.exact, wanted.output, atol=1e-12, rtol=0)
    assert np.allclose(found.magnitude * (shape.reduction + 2) * harness.EPSILON, wanted.tolerance)


TYPES = [dict(), dict(out_dtype="float16"), dict(dtype="uint8"), dict(dtype="uint8", weight_dtype="int8"),
         dict(dtype="uint8", weight_dtype="int8", out_dtype="int32"), dict(dtype="uint16", out_dtype="int16"),
         dict(out_dtype="uint8")]


@pytest.mark.parametrize("types, steps", list(itertools.product(
    TYPES, ((), ("hardswish",), ("bias", "residual", "relu")))), ids=str)
def test_limits_hold_what_is_right_and_nothing_else(types, steps):
    """Between the limits lies what the tests' own reference allows, and they are as narrow."""
    shape = ConvShape(c=1, k=1, h=24, w=9, r=3, s=3, padding=1, padding_mode="reflect", **types)
    x, w, bias = tests_reference.operands(shape, np.random.default_rng(3))
    plan = plan_layer(shape, algorithm="direct", epilogue=steps)
    residual = np.ones(shape.output_shape, tests_reference.ELEMENTS[shape.y_dtype]) if "residual" in steps else None
    bias = bias if "bias" in steps else None
    found = image_reference.limits(HOST, x, w, shape, plan.spec.epilogue, bias, residual)
    right = exact_result(shape, plan.spec.epilogue, x, w, bias, residual).astype(
        tests_reference.ELEMENTS[shape.y_dtype])
    assert found.check(HOST, right) <= (0.5 if shape.y_dtype.is_integer else 1e-2 if shape.out_dtype else 1e-6)
    width = (found.high - found.low).max()
    assert width <= {True: 1.0, False: 2e-2 if shape.out_dtype else 1e-4}[shape.y_dtype.is_integer]
    at = (0, 0, 3, 4)
    for step in (-2, 2) if shape.y_dtype.is_integer else (-0.1, 0.1):
        spoiled = right.astype(float)
        spoiled[at] += step
        with pytest.raises(harness.WrongResult, match="outside of what rounding allows"):
            found.check(HOST, spoiled)
    if not shape.y_dtype.is_integer:
        right[0, 0, 20, 4] = np.nan
        with pytest.raises(harness.WrongResult, match="NaN"):
            found.check(HOST, right)


def test_integers_of_integer_filters_are_exact_and_saturate():
    shape = ConvShape(c=1, k=1, h=8, w=8, r=1, s=1, dtype="uint8", weight_dtype="int8")
    x = np.arange(64, dtype=np.uint8).reshape(shape.input_shape)
    found = image_reference.limits(HOST, x, np.full((1, 1, 1, 1), 9, np.int8), shape)
    assert np.array_equal(found.low, found.high) and found.high.max() == 255
    assert found.check(HOST, np.clip(x.astype(int) * 9, 0, 255).astype(np.uint8)) == 0
    with pytest.raises(harness.WrongResult):
        found.check(HOST, x * np.uint8(9))             # wrapped


def test_libraries_may_cut_off_but_not_more():
    shape = ConvShape(c=1, k=1, h=8, w=8, r=1, s=1, dtype="uint8")
    x = np.arange(64, dtype=np.uint8).reshape(shape.input_shape)
    found = image_reference.limits(HOST, x, np.full((1, 1, 1, 1), 5.3, np.float32), shape)
    cut = np.clip(np.trunc(x * 5.3), 0, 255)
    assert 0.5 < found.check_peer(HOST, cut.astype(np.uint8)) <= 1
    wrapped = np.trunc(x * 5.3).astype(np.int64).astype(np.uint8)
    assert found.check_peer(HOST, wrapped, saturates=False) <= 1
    for bad, options in ((wrapped, {}), (cut + 2, {}), (cut - 1, {"saturates": False})):
        with pytest.raises(harness.WrongResult, match="off by"):
            found.check_peer(HOST, bad.astype(np.int64), **options)
    edge = cut.copy()
    edge[..., 0, :] = 7
    assert found.check_peer(HOST, edge.astype(np.uint8), inside=(1, 1)) <= 1


def test_libraries_may_sum_in_float32_before_they_cut_off():
    shape = ConvShape(c=1, k=1, h=2, w=2, r=1, s=1, dtype="uint16")
    x = np.full(shape.input_shape, 65535, np.uint16)
    found = image_reference.limits(HOST, x, np.full((1, 1, 1, 1), 0.5, np.float32), shape)
    assert 0 < found.slack < 0.05
    assert found.check_peer(HOST, np.full(x.shape, 32766.5 - found.slack / 2)) > 1
    with pytest.raises(harness.WrongResult, match="off by"):
        found.check_peer(HOST, np.full(x.shape, 32766.5 - 2 * found.slack))


def test_two_passes_are_the_gaussian():
    ndimage = pytest.importorskip("scipy.ndimage", reason="scipy is not installed")
    x = np.random.default_rng(1).random((19, 19))
    for sigma, radius in ((1.0, None), (4.0, None), (0.8, 2)):
        row = image_layers.Gaussian(sigma, radius, 19)
        made = image_gauss.two_passes(HOST, x[None, None], image_gauss.gaussian_taps(row))
        wanted = ndimage.gaussian_filter(x, sigma, radius=radius)
        assert np.allclose(made.exact[0, 0], wanted, atol=1e-12) and (made.high - made.low).max() < 1e-4
        assert made.check(HOST, wanted[None, None]) < 1e-12
        with pytest.raises(harness.WrongResult):
            made.check(HOST, ndimage.gaussian_filter(x, sigma, radius=radius, mode="nearest")[None, None])


# ---- timing

def test_samples_of_several_are_taken_in_turns():
    order = []

    class Timed(HostDevice):
        trial = False

        def sample(self, calls, count, hold_ms=0.0):
            order.append(calls[0]())
            return {"a": 0.2, "b": 0.4}[order[-1]] * count

    first, second = harness.measure_together(Timed(), [[lambda: "a"] * 2, [lambda: "b"]], repeats=6)
    assert order[-12:] == ["a", "b"] * 6
    assert (first.ms, second.ms) == (pytest.approx(0.2), pytest.approx(0.4)) and first.repeats == second.repeats == 6


def test_a_graph_that_does_not_write_integers_is_not_used():
    class Capturing(HostDevice):
        can_capture, trial = True, False

        def sample(self, calls, count, hold_ms=0.0):
            calls[0]()
            return 0.01 * count

        def capture(self, calls, count):
            return lambda: None

    y = np.full((4, 4), POISON, np.uint8)
    timing = harness.measure(Capturing(), [lambda: y.fill(3)], written=y)
    assert timing.method == "events (no graph: WrongResult)" and (y == 3).all()
    Capturing.capture = lambda self, calls, count: lambda: y.fill(3)
    assert harness.measure(Capturing(), [lambda: y.fill(3)], written=y).method == "graph"


def test_integers_are_drawn_over_their_whole_range():
    drawn = HOST.random((4, 1, 64, 64), 1, DType.INT8)
    assert drawn.dtype == np.int8 and (drawn.min(), drawn.max()) == (-128, 127)
    assert (HOST.poisoned((2, 2), DType.UINT16) == POISON).all() and np.isnan(HOST.poisoned((2,))).all()


# ---- tables

def judged(name, group="borders", batch="plane", **fields):
    targets = (Target("any border", "of_zeros", 0.97, 0.99), Target("only an aim", "NPP_speedup", None, 3.0))
    row = {"key": f"{group}/{batch}/{name}", "kind": "row", "status": "ok", "group": group, "batch": batch,
           "name": name, "ms": 1.0, "gbs": 1.0, "of_copy": 1.0, "algorithm": "wide", "error": 1e-7, "targets": [],
           **fields}
    return {row["key"]: row | image_tables.judged(row, targets)}


def test_targets_are_met_by_every_row_or_not_at_all():
    rows = judged("reflect", of_zeros=0.98, NPP_speedup=2.0) | judged("circular", of_zeros=0.975)
    lines = {line[0]: line[1:] for line in image_tables.tables(rows)[0].rows}
    assert lines["any border"] == (0.97, 0.99, 0.975, "plane, circular", "2 of 2", True, False)
    assert lines["only an aim"] == (None, 3.0, 2.0, "plane, reflect", "0 of 2", None, False)
    rows |= judged("zeros", of_zeros=0.96, NPP_speedup=9.0)
    lines = {line[0]: line[1:] for line in image_tables.tables(rows)[0].rows}
    assert lines["any border"][2:] == (0.96, "plane, zeros", "2 of 3", False, False)
    assert rows["borders/plane/zeros"]["met"] is False and rows["borders/plane/reflect"]["met"] is True


def test_the_matrix_and_the_peers_are_shown(tmp_path):
    from matplotlib.figure import Figure
    rows = judged("zeros") | judged("reflect", of_zeros=0.981, CuPy_ms=5.0, CuPy_speedup=5.0, cuDNN_reason="gone")
    made = {table.title: table for table in image_tables.tables(rows)}
    assert made["Borders against zeros"].rows == (("plane", "wide", 1.0, "98.1"),)
    columns, line = made["Borders"].columns, made["Borders"].rows[1]
    assert line[columns.index("CuPy ms")] == line[columns.index("x")] == 5.0 and len(line) == len(columns)
    assert made["Peers without a time"].rows == (("cuDNN", "gone", 1, "borders: plane, reflect"),)
    figure = Figure()
    image_tables.plot(rows, figure)
    assert len(figure.axes) == 1
