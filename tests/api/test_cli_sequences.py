"""Layers of sequences on the command line: the kernels that conv1d has for them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import warpconv
from tests import checks
from tests.api.test_cli import good, run
from warpconv.runtime.call import conv, kernels

LAYERS = {
    "causal": (["2,8,50", "8,4", "--padding", "causal", "--groups", "8"], (2, 8, 50), (8, 1, 4),
               dict(padding="causal", groups=8)),
    "causal, channels last": (["2,50,8", "8,4", "--padding", "causal", "--groups", "8", "--layout", "NLC", "--dtype",
                               "float16"], (2, 50, 8), (8, 1, 4), dict(padding="causal", groups=8, layout="NLC")),
    "dense": (["1,6,40", "4,5", "--stride", "2", "--padding", "2", "--dilation", "3"], (1, 6, 40), (4, 6, 5),
              dict(stride=2, padding=2, dilation=3)),
    "two sides": (["1,40,6", "4,3", "--padding", "1,2", "--layout", "NLC"], (1, 40, 6), (4, 6, 3),
                  dict(padding=(1, 2), layout="NLC")),
    "same": (["1,3,40", "3,7", "--padding", "same", "--groups", "3"], (1, 3, 40), (3, 1, 7),
             dict(padding="same", groups=3)),
}


@pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
@pytest.mark.parametrize("name", LAYERS)
def test_they_are_conv1ds(name, monkeypatch):
    (sizes, taps, *options), x, w, call = LAYERS[name]
    met, made = [], kernels.made
    monkeypatch.setattr(kernels, "made", lambda ask: met.append(ask) or made(ask))
    conv.clear()
    dtype = np.float16 if "float16" in options else np.float32
    warpconv.conv1d(np.ones(x, dtype), np.ones(w, dtype), device="cpu", **call)
    shape = met[0].request.layer
    record = json.loads(good("explain", "--input", sizes, "--filter", taps, *options, "--json"))
    assert record["layer"] == str(shape)
    assert record["chosen"] == warpconv.plan_layer(shape).spec.algorithm


def test_a_length_may_stay_open():
    record = json.loads(good("explain", "--input", "N,8,L", "--filter", "8,4", "--padding", "causal", "--groups", "8",
                             "--json"))
    assert record["assumed"] == ["N", "W"] and "padding 0,0,3,0" in record["layer"]


@pytest.mark.parametrize("options, argument", [
    (["--padding", "1,2,3,4"], "--padding"), (["--layout", "NDHWC"], "--layout"), (["--padding", "most"], "--padding")])
def test_what_fits_no_sequence_is_refused(options, argument):
    made = run("emit", "--input", "1,8,40", "--filter", "8,4", *options)
    assert made.exit_code != 0 and argument in made.output
