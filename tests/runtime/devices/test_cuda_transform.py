"""A filter given by pointer to a kernel that reorders filters: reordered in the stream's order, its memory given
back."""

from types import SimpleNamespace

import pytest

from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.arrays import ArrayKind
from warpconv.runtime.call.checks import Call
from warpconv.runtime.devices.cuda import backend

SHAPE = ConvShape(n=2, c=32, h=14, w=14, k=32, r=3, s=3)
PROGRAM = plan_layer(SHAPE, algorithm="implicit_gemm").program
POINTERS = {"x": 0x1000, "w": 0x2000, "y": 0x3000}
MADE = 0x9000


class Pool:
    def __init__(self):
        self.taken, self.given = [], []

    def allocate(self, nbytes, stream):
        self.taken.append((nbytes, stream))
        return SimpleNamespace(pointer=MADE)

    def release(self, block):
        self.given.append(block.pointer)


@pytest.fixture
def made(monkeypatch):
    """A backend without a GPU, its pool, and what was queued: (steps, shape, pointers)."""
    made, pool, queued = backend.CudaBackend.__new__(backend.CudaBackend), Pool(), []
    made.program, made._preparation, made._weight, made._constant = PROGRAM, PROGRAM.preparation, "w", None
    made._input = "x"
    monkeypatch.setattr(made, "_loaded", lambda *key: "module", raising=False)
    monkeypatch.setattr(made, "prepare", lambda *_: pytest.fail("a call's own filter is not prepared"), raising=False)
    monkeypatch.setattr(backend.memory, "pool", pool)
    monkeypatch.setattr(backend.contexts, "context_key", lambda: ("context", 1))
    monkeypatch.setattr(backend, "_Executor", lambda *parts: parts)
    monkeypatch.setattr(backend, "execute", lambda executor, steps, spaces, shape, pointers: queued.append(
        (steps, shape, dict(pointers))))
    return made, pool, queued


CALL = Call(SHAPE, {"x": SimpleNamespace(kind=ArrayKind.CUPY)})
QUEUE = SimpleNamespace(handle=7, for_pycuda=False)


def test_the_preparation_reads_the_callers_filter_and_the_steps_read_the_buffer(made):
    kernel, pool, queued = made
    kernel._queue(CALL, dict(POINTERS), None, QUEUE)
    buffer = PROGRAM.preparation.buffer
    assert pool.taken == [(buffer.bytes_each, 7)] and pool.given == [MADE]
    (first, no_shape, before), (steps, shape, after) = queued
    assert first == PROGRAM.preparation.steps and no_shape is None
    assert before == {**POINTERS, buffer.name: MADE}
    assert steps == PROGRAM.steps and shape == SHAPE
    assert after == {**POINTERS, buffer.name: MADE, "w": MADE}


def test_the_buffer_is_given_back_after_an_error(made, monkeypatch):
    kernel, pool, _ = made

    def refuse(*_):
        raise RuntimeError("planted")

    monkeypatch.setattr(backend, "execute", refuse)
    with pytest.raises(RuntimeError, match="planted"):
        kernel._queue(CALL, dict(POINTERS), None, QUEUE)
    assert pool.given == [MADE]


def test_a_filter_that_lies_in_order_is_read_where_it_is(made):
    kernel, pool, queued = made
    kernel._queue(Call(SHAPE, CALL.operands, in_order=True), dict(POINTERS), None, QUEUE)
    ((steps, shape, given),) = queued
    assert steps == PROGRAM.steps and shape == SHAPE and not pool.taken
    assert given == {**POINTERS, PROGRAM.preparation.buffer.name: POINTERS["w"]}
