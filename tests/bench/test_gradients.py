"""The study of gradients: which rows are measured."""

from __future__ import annotations

import pytest

from bench import __main__ as main
from bench.devices import HostDevice
from bench.studies import gradients, planes
from tests import checks


@pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
def test_only_rows_that_are_asked_for(tmp_path):
    pattern = "filter_gradient/*112/[37]x*/stride 1/float16/NHWC"
    found = main.run(gradients.STUDY, tmp_path, only=(pattern,), device=HostDevice())
    keys = [key for key, row in found.rows.items() if row["kind"] in gradients.OPERATIONS]
    assert keys == [f"filter_gradient/32x128x112/{taps}/stride 1/float16/NHWC" for taps in ("3x3", "7x7")]
    assert all(found.rows[key]["status"] == "ok" for key in keys)


def test_a_study_without_a_choice_of_rows_says_so(tmp_path):
    with pytest.raises(ValueError, match="planes has no choice of rows"):
        main.run(planes.STUDY, tmp_path, only=("*",), device=HostDevice())
