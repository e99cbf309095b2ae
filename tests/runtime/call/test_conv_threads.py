"""Kernels that several threads ask for at the same time."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from warpconv.codegen.shape import ConvShape
from warpconv.runtime.call import conv, kernels

SECONDS = 60.0      # nobody waits as long
LAYERS = [ConvShape(c=c, h=20, w=20, k=4, r=3, s=3) for c in (1, 2, 3)]


class Loaded(SimpleNamespace):
    """Stands in for a Kernel."""

    def for_axes(self, order):
        return self


@pytest.fixture(autouse=True)
def empty():
    conv.clear()
    yield
    conv.clear()


def test_layers_are_made_side_by_side(monkeypatch):
    together = threading.Barrier(len(LAYERS), timeout=SECONDS)      # each is built while all others are

    def load(plan):
        together.wait()
        return Loaded(spec=plan.spec, program=plan.program)

    monkeypatch.setattr(kernels, "_load_cpu", load)
    with ThreadPoolExecutor(len(LAYERS)) as pool:
        made = list(pool.map(lambda layer: conv.specialize(layer, device="cpu"), LAYERS))
    assert [kernel.spec.c for kernel in made] == [1, 2, 3]


def test_a_layer_is_made_once_for_all_threads_and_batches(monkeypatch):
    loaded = []
    monkeypatch.setattr(kernels, "_load_cpu", lambda plan: loaded.append(plan) or Loaded(spec=plan.spec,
                                                                                      program=plan.program))
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda n: conv.specialize(LAYERS[0].with_batch(n), device="cpu"), (1, 2, 3, 4) * 3)
        made = set(map(id, found))
    assert len(made) == len(loaded) == 1
