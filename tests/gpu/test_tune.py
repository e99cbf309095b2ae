"""Tuning on a GPU: every configuration is checked and timed by events, and the quickest is then what planning takes."""

import numpy as np
import pytest

from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.serialise import plan_digest
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import env
from warpconv.runtime.devices.cuda import contexts
from warpconv.runtime.tuning import files, table, tune
from warpconv.runtime.tuning.records import Outcome

pytestmark = pytest.mark.gpu

LAYERS = {
    "plane": ConvShape(c=1, h=1000, w=1500, k=1, r=5, s=5, padding=2),
    "depthwise": ConvShape(n=8, c=32, h=56, w=56, k=32, r=3, s=3, padding=1, groups=32),
    "depthwise, fp16": ConvShape(n=8, c=32, h=56, w=56, k=32, r=3, s=3, padding=1, groups=32, dtype="float16"),
    "depthwise, bf16, NHWC": ConvShape(n=8, c=32, h=56, w=56, k=32, r=3, s=3, padding=1, groups=32, dtype="bfloat16",
                                       layout="NHWC"),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("epilogue", [(), ("bias", "relu")])
def test_a_layer_is_tuned_and_planning_follows(tmp_path, name, epilogue):
    shape, path = LAYERS[name], tmp_path / "tuning.json"
    result = tune(shape, device="cuda", epilogue=epilogue, configurations=12, database=path)
    kept = result.database.of(result.subject)
    reasons = [t.reason for t in kept.values() if t.outcome in (Outcome.WRONG, Outcome.FAILED)]
    assert not reasons and result.tried[Outcome.TIMED] >= 1
    # no quicker than 100 TB/s of copying, no slower than a second
    assert all(shape.bytes_moved / 1e8 < t.us < 1e6 for t in kept.values() if t.us is not None)
    assert result.copy_us and np.isfinite(result.copy_us)
    for where in files.read(path).origins.values():         # one for each algorithm's state
        assert (where.device, where.arch) == (contexts.name(0), contexts.arch(0)) and where.cuda and where.driver
    with env.scope(tune_db=path):
        found, arch = table(0), contexts.arch(0)
        made = plan_layer(shape, arch=arch, epilogue=epilogue, tuning=found)
        assert made.spec.algorithm == result.best.algorithm
        assert made.settings() == dict(result.best.values)
        assert explain(shape, arch, epilogue=epilogue, tuning=found)[0].reason.startswith("measured: ")
        assert plan_digest(plan_layer(shape.with_batch(3), arch=arch, epilogue=epilogue, tuning=found)) \
            == plan_digest(made)
    again = tune(shape, device="cuda", epilogue=epilogue, configurations=3, database=path)
    assert again.skipped == len(kept)
