"""How the studies time and check: rotating calls, graphs, references, results that are not taken."""

import itertools

import numpy as np
import pytest

from bench import harness, reference
from bench.devices import HostDevice
from tests.bench.fakes import FakeDevice
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape


# ---- timing and checking

def test_measure_goes_round_the_calls_and_falls_back_from_a_refused_graph():
    calls = [0, 0, 0]

    class Capturing(FakeDevice):
        can_capture, trial = True, False

        def sample(self, calls, count, hold_ms=0.0):
            super().sample(calls, count, hold_ms)
            return 0.01 * count

        def capture(self, calls, count):
            raise RuntimeError("no")

    made = [lambda i=i: calls.__setitem__(i, calls[i] + 1) for i in range(3)]
    timing = harness.measure(Capturing(), made, repeats=20)
    assert timing.method == "events (no graph: RuntimeError)" and timing.ms == pytest.approx(0.01)
    assert timing.repeats == 20 and timing.count % 3 == 0 and len(set(calls)) == 1


def test_measure_replays_a_graph_of_all_calls():
    class Capturing(FakeDevice):
        can_capture, trial, captured = True, False, None

        def sample(self, calls, count, hold_ms=0.0):
            return 0.5 if self.captured else 0.01 * count

        def capture(self, calls, count):
            self.captured = count
            return lambda: None

    device = Capturing()
    timing = harness.measure(device, [lambda: None])
    assert timing.method == "graph" and timing.count == device.captured == 100
    assert timing.ms == pytest.approx(0.005)


def test_buffers_rotate_through_more_than_the_cache():
    assert harness.rotation(8 << 20) == 32 and harness.rotation(512 << 20) == 1 and harness.rotation(1) == 64


@pytest.mark.parametrize("shape", [
    ConvShape(c=1, h=9, w=8, k=1, r=3, s=5, padding="same"),
    ConvShape(n=2, c=4, h=7, w=6, k=6, r=3, s=2, groups=2, padding=1),
    ConvShape(n=3, c=3, h=9, w=9, k=2, r=3, s=3, stride=2, dilation=2, padding=2)], ids=str)
def test_reference_is_the_convolution(shape):
    device = HostDevice()
    x, w = device.random(shape.input_shape, 1), device.random(shape.weight_shape, 2)
    found = harness.reference(device, x, w, shape)
    (top, bottom), (left, right) = shape.padding
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (top, bottom), (left, right)))
    n, k, p, q = (shape.n, shape.k - 1, shape.p - 1, shape.q - 1)
    group = k // (shape.k // shape.groups)
    channels = shape.c // shape.groups
    window = padded[n - 1, group * channels:(group + 1) * channels,
                    p * shape.stride[0]:p * shape.stride[0] + shape.dilation[0] * (shape.r - 1) + 1:shape.dilation[0],
                    q * shape.stride[1]:q * shape.stride[1] + shape.dilation[1] * (shape.s - 1) + 1:shape.dilation[1]]
    assert found.exact.shape == (n, *shape.output_shape[1:])
    assert found.exact[-1, k, p, q] == pytest.approx(float((window * w[k]).sum()))
    assert found.magnitude[-1, k, p, q] == pytest.approx(float(abs(window * w[k]).sum()))


@pytest.mark.parametrize("spoil", [lambda y: y.__setitem__((0, 0, 3, 3), np.nan), lambda y: y.__iadd__(1e-5)])
def test_a_wrong_result_is_not_timed(spoil):
    device, shape = HostDevice(), ConvShape(c=1, h=8, w=8, k=1, r=3, s=3, padding=1)
    layer = harness.make_layer(device, shape)
    y = layer.reference.exact.astype(np.float32)
    assert layer.reference.check(device, y, own=True) < 1e-6
    spoil(y)
    with pytest.raises(harness.WrongResult):
        layer.reference.check(device, y, own=True)


@pytest.mark.thin(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_sixteen_bit_layers_of_both_layouts_run_on_the_cpu_device(dtype, layout):
    device = HostDevice()
    shape = ConvShape(n=4, c=6, h=9, w=11, k=6, r=3, s=5, groups=6, padding="same", dtype=dtype, layout=layout)
    layer = harness.make_layer(device, shape)
    x = layer.xs[0]
    assert x.shape == shape.input_shape and x.dtype.name == dtype and layer.w.dtype == x.dtype
    assert (x if layout == "NCHW" else x.transpose(0, 2, 3, 1)).flags.c_contiguous
    assert layer.reference.images == (0, 1, 3)
    row = harness.run_kernel(device, layer, plan_layer(shape))
    assert row["error"] < harness.PEER_ERRORS[DType(dtype)] and not np.isnan(layer.ys[0].astype(float)).any()


@pytest.mark.parametrize("dtype, digits", [(DType.FLOAT16, 11), (DType.BFLOAT16, 8)])
def test_the_bound_of_a_sixteen_bit_result_has_room_for_one_rounding_and_no_more(dtype, digits):
    device = HostDevice()
    layer = harness.make_layer(device, ConvShape(c=1, h=12, w=12, k=1, r=3, s=3, padding=1, dtype=dtype))
    stored = device.poisoned(layer.shape.output_shape, dtype)
    stored[...] = layer.reference.exact
    assert 0 < layer.reference.check(device, stored, own=True) < 2.0 ** -digits
    at = np.unravel_index(int(abs(layer.reference.exact).argmax()), stored.shape)
    stored[at] = float(stored[at]) * (1 + 2.0 ** (2 - digits))
    with pytest.raises(harness.WrongResult, match=f"{dtype.value} may have"):
        layer.reference.check(device, stored, own=True)


@pytest.mark.parametrize("image", [0, 1, 2, 4])
def test_the_first_two_images_and_the_last_are_checked_and_nan_everywhere(image):
    device = HostDevice()
    shape = ConvShape(n=5, c=2, h=6, w=6, k=2, r=3, s=3, groups=2, padding=1, layout="NHWC")
    layer = harness.make_layer(device, shape)
    y = harness.reference(device, layer.xs[0], layer.w, shape, images=range(5)).exact.astype(np.float32)
    layer.reference.check(device, y, own=True)
    y[image, 1, 2, 3] += 1e-2
    if image == 2:
        layer.reference.check(device, y, own=True)
        y[image, 1, 2, 3] = np.nan
    with pytest.raises(harness.WrongResult):
        layer.reference.check(device, y, own=True)


def test_a_depthwise_reference_is_the_one_that_groups_give():
    device = HostDevice()
    shape = ConvShape(n=2, c=3, h=8, w=7, k=3, r=4, s=3, groups=3, padding=((2, 1), (0, 2)), stride=(2, 1),
                      dilation=(1, 2))
    x, w = device.random(shape.input_shape, 1), device.random(shape.weight_shape, 2)
    found = reference.reference(device, x, w, shape)
    for channel in range(3):
        one = ConvShape(n=2, c=1, h=8, w=7, k=1, r=4, s=3, padding=shape.padding, stride=(2, 1), dilation=(1, 2))
        alone = reference.reference(device, x[:, channel:channel + 1], w[channel:channel + 1], one)
        np.testing.assert_allclose(found.exact[:, channel], alone.exact[:, 0], rtol=1e-13)
        np.testing.assert_allclose(found.magnitude[:, channel], alone.magnitude[:, 0], rtol=1e-13)


class Clocked(FakeDevice):
    """Every call takes ``each`` milliseconds; a captured graph does what ``replay`` does."""

    can_capture, trial, each, replay = True, False, 0.01, None

    def sample(self, calls, count, hold_ms=0.0):
        return self.each * count

    def capture(self, calls, count):
        return self.replay or (lambda: [call() for call in calls])


@pytest.mark.parametrize("replay, method", [(None, "graph"), (lambda: None, "events (no graph: WrongResult)")])
def test_a_graph_that_does_not_write_the_result_is_not_timed(replay, method):
    device = Clocked()
    device.replay = replay
    y = np.zeros(4)
    assert harness.measure(device, [lambda: y.fill(2.0)], written=y).method == method


@pytest.mark.parametrize("each, repeats", [(0.5, 20), (5.0, 20), (5.1, 10), (50.1, 5)])
def test_slow_calls_are_timed_fewer_times(each, repeats):
    device = Clocked()
    device.each = each
    assert harness.measure(device, [lambda: None]).repeats == repeats


@pytest.mark.parametrize("step, repeats", [(0.5, 5), (0.006, 10), (0.0011, 20)])
def test_a_long_call_is_a_sample_by_itself_and_all_buffers_have_their_turn(monkeypatch, step, repeats):
    """The clock goes on by ``step`` seconds whenever it is read: a round of two calls takes two steps."""
    class Recording(Clocked):
        def sample(self, calls, count, hold_ms=0.0):
            sampled.append((calls[0], count))
            return super().sample(calls, count, hold_ms)

    device, made, sampled, clock = Recording(), [], [], itertools.count()
    device.each = 60.0
    calls = [lambda: made.append(0), lambda: made.append(1)]
    monkeypatch.setattr(harness.time, "perf_counter", lambda: step * next(clock))
    timing = harness.measure(device, calls)
    assert made == [0, 1, 0, 1] and (timing.repeats, timing.count, timing.ms) == (repeats, 1, 60.0)
    assert sampled == [(calls[i % 2], 1) for i in range(repeats)]


def test_data_is_drawn_in_its_type_and_laid_out_as_asked():
    device = HostDevice()
    x = device.random((2, 3, 4, 5), 7, DType.FLOAT16, Layout.NHWC)
    assert x.dtype == np.float16 and x.shape == (2, 3, 4, 5) and x.transpose(0, 2, 3, 1).flags.c_contiguous
    assert -1 <= x.min() < -0.5 and 0.5 < x.max() <= 1
    assert np.array_equal(x, device.random((2, 3, 4, 5), 7, DType.FLOAT16))
