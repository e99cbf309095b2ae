"""Which layers convert takes by what was measured, and how the time of a whole model is told apart."""

from __future__ import annotations

import contextlib
import time

import pytest
import torch

from warpconv.torch import measure


def test_as_many_layers_are_taken_as_shorten_the_longer_of_both():
    """Of layers that save the device's time and cost the host's those that save most for it, until the host would be
    what the model waits for."""
    def layer(saved, paid, theirs=20.0):
        return measure.Beside(measure.Times(theirs - saved, 5.0 + paid), measure.Times(theirs, 5.0), "")

    found = {"free": layer(5.0, -1.0), "best": layer(10.0, 2.0), "good": layer(8.0, 2.0), "poor": layer(4.0, 8.0),
             "slower": layer(-1.0, -3.0), "little": layer(1.0, 0.0)}
    for whole, taken in (((100.0, 50.0), {"free", "best", "good", "poor"}), ((80.0, 55.0), {"free", "best", "good"}),
                         ((80.0, 60.0), {"free", "best"}), ((80.0, 76.0), {"free"}), ((50.0, 90.0), {"free"}),
                         (None, {"free", "best", "good", "poor"})):
        assert measure.chosen(found, whole and measure.Times(*whole)) == taken, whole
        device, host = whole or (0.0, 0.0)
        after = [(device - sum(found[name].saved for name in taken)), host + sum(found[name].paid for name in taken)]
        assert whole is None or max(after) < max(whole) or not taken


def test_the_hosts_time_is_that_of_few_images():
    """A batch's share of every tensor that has its length; others, and what is no tensor, stay."""
    x, mask, table = torch.randn(64, 3, 4, 4), torch.ones(64), torch.randn(10, 2)
    args, named = measure._fewer((x, 2.0), {"mask": mask, "more": [table, None]})
    assert args[0].shape == (8, 3, 4, 4) and args[1] == 2.0
    assert named["mask"].shape == (8,) and named["more"][0] is table and named["more"][1] is None
    (one,), _ = measure._fewer((torch.randn(3, 2, 2),), {})
    assert one.shape == (1, 2, 2)


@pytest.mark.parametrize("least", [1, 64])
def test_waiting_for_a_full_queue_is_no_time_of_the_hosts(least, monkeypatch):
    """The host waits with each image here; a model that refuses fewer of them is taken at its word."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr(measure, "in_turn", lambda *_, **__: [measure.Times(1.0, 9.0)])

    def call(args, named):
        def once():
            assert len(args[0]) >= least
            time.sleep(len(args[0]) * 2e-4)
        return once

    device, host = measure._by_both_clocks(call, (torch.zeros(64, 1),), {}, torch.device("cpu"))
    assert device == 1.0 and host >= 0.2e-3 * 64 / 8 and (host < 0.2e-3 * 64) == (least == 1)


def test_a_step_of_training_takes_the_host_longer_than_its_passes(monkeypatch):
    """Its optimizer is the host's work, too."""
    monkeypatch.setattr(measure, "_by_both_clocks", lambda *_: measure.Times(2.0, 1.0))
    monkeypatch.setattr(torch.random, "fork_rng", lambda *_: contextlib.nullcontext())
    asked = ((torch.ones(1, 1),), {}, torch.device("cuda"))
    assert measure.whole(torch.nn.Linear(1, 1).train(), *asked) == measure.Times(2.0, measure.STEPPED)
    assert measure.whole(torch.nn.Linear(1, 1).eval(), *asked) == measure.Times(2.0, 1.0)
