"""The study of times that the host spends: its rows from end to end, and results that are not taken."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bench import __main__ as main, harness
from bench.studies import latency
from tests.bench.fakes import FakeDevice
from warpconv.codegen.shape import ConvShape


@pytest.mark.long
def test_latency_from_end_to_end(tmp_path, monkeypatch):
    sample = {"import_ms": 90.0, "first_ms": 300.0, "memory_ms": 0.01}
    monkeypatch.setattr(latency, "_process", lambda compiler, cache, device: dict(sample))
    import warpconv
    monkeypatch.setattr(warpconv, "conv2d", lambda x, w, **more: x, raising=False)
    found = main.run(latency.STUDY, tmp_path, quick=True, device=FakeDevice())
    assert found.rows["specialize/nvrtc/cold"]["first_ms"] == 300.0
    ours = [r for key, r in found.rows.items() if key.startswith("call/") and "torch" not in key]
    assert len(ours) == 12 and all(r["status"] == "ok" and r["us"] > 0 for r in ours)
    assert "| nvrtc | cold |" in (tmp_path / "README.md").read_text()
    chains = {key: r for key, r in found.rows.items() if key.startswith("chain/")}
    assert [r["status"] == "ok" for r in chains.values()] == [True, True, False, False, False]
    assert all(r["whole_us"] > 0 and r["us"] > 0 for r in chains.values() if r["status"] == "ok")
    assert "CUDA graphs" in chains["chain/warpconv.graph of the kernels"]["status"]
    assert "| kernel(x, filter, out=y), 32 calls |" in (tmp_path / "README.md").read_text()


def test_a_graph_that_gives_another_result_is_no_time():
    context = SimpleNamespace(device=FakeDevice())
    layer = harness.make_layer(context.device, ConvShape(n=1, c=4, h=6, w=6, k=4, r=3, s=3, padding=1, groups=4))
    chain = latency._Chain(context, layer)
    submit = chain.kernels()
    wanted = chain._result(submit)
    assert chain._same(submit, wanted) is submit
    with pytest.raises(harness.WrongResult):
        chain._same(lambda: None, wanted)
