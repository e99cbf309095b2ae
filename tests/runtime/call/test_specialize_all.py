"""A list of layers becomes kernels at the same time; packs use the same threads."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import warpconv
from tests import checks
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, UnsupportedSpec
from warpconv.runtime import env
from warpconv.runtime.build.parallel import as_done
from warpconv.runtime.call import many
from warpconv.runtime.layers import NamedLayer

needs_compiler = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
LAYERS = [warpconv.ConvShape(c=1, h=9, w=size, k=1, r=3, s=3, padding=1) for size in (8, 16, 24)]


@needs_compiler
def test_kernels_come_in_the_order_of_the_layers():
    layers = [LAYERS[0], warpconv.ConvShape(c=2, h=9, w=8, k=2, r=1, s=1),
              NamedLayer(name="relu", shape=LAYERS[0], epilogue=(warpconv.Epilogue.RELU,), algorithm="direct")]
    seen = []
    kernels = warpconv.specialize_all(layers, workers=2, device="cpu",
                                      progress=lambda done, total, kernel: seen.append((done, total, kernel)))
    assert [kernel.spec.k for kernel in kernels] == [1, 2, 1] and kernels[2].spec.algorithm == "direct"
    assert [row[:2] for row in seen] == [(1, 3), (2, 3), (3, 3)]
    assert {id(row[2]) for row in seen} == {id(kernel) for kernel in kernels}
    x, w = np.ones((1, 1, 9, 8), np.float32), -np.ones((1, 1, 3, 3), np.float32)
    assert kernels[0](x, w).max() == -4 and kernels[2](x, w).max() == 0


@pytest.mark.parametrize("workers", [1, 3])
def test_as_many_at_once_as_there_are_workers(monkeypatch, workers):
    met = threading.Barrier(workers, timeout=20)

    def specialize(layer, **options):
        met.wait()                      # in vain, with fewer
        return layer

    monkeypatch.setattr(many, "specialize", specialize)
    assert many.specialize_all(LAYERS, workers=workers) == LAYERS


def test_the_first_failure_is_raised_and_what_has_not_begun_is_left(monkeypatch):
    begun = []

    def specialize(layer, **options):
        begun.append(layer)
        if layer is LAYERS[0]:
            raise UnsupportedSpec(None, "no")
        time.sleep(0.2)

    monkeypatch.setattr(many, "specialize", specialize)
    with pytest.raises(UnsupportedSpec):
        many.specialize_all(LAYERS * 20, workers=1)
    assert len(begun) < 10


def test_settings_of_the_caller_hold_in_the_threads(monkeypatch):
    monkeypatch.setattr(many, "specialize", lambda layer, **options: env.settings().cpu_threads)
    with env.scope(cpu_threads=3, compile_jobs=2):
        assert many.specialize_all(LAYERS) == [3, 3, 3]


@pytest.mark.parametrize("layers, options, error, argument", [
    ([3], {}, ArgumentTypeError, "layers"), (LAYERS, {"workers": 0}, ArgumentError, "workers"),
    (LAYERS, {"workers": True}, ArgumentError, "workers"), (LAYERS, {"plan": None}, ArgumentError, "plan"),
    ([NamedLayer(name="a", shape=LAYERS[0])], {"algorithm": "direct"}, ArgumentError, "algorithm")])
def test_typed_errors(layers, options, error, argument):
    with pytest.raises(error) as caught:
        warpconv.specialize_all(layers, **options)
    assert caught.value.argument == argument


def test_no_layers_make_no_kernels():
    assert warpconv.specialize_all([]) == [] == list(as_done(str, [], 4))


@pytest.mark.parametrize("layers", [warpconv.ConvShape(c=1, h=9, w=9, k=1, r=3, s=3), 3, None])
def test_layers_are_a_list(layers):
    with pytest.raises(ArgumentTypeError, match="takes a list of layers"):
        warpconv.specialize_all(layers)
