"""What a plan's workspace takes, is allowed to take, and is shown to take."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import warpconv
from tests import checks, reference, settings
from warpconv.cli import cli
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, UnsupportedSpec
from warpconv.codegen.select import explain, plan_layer, select
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import env
from warpconv.runtime.call import conv
from warpconv.runtime.devices.cpu import backend
from warpconv.runtime.layers import NamedLayer, read_layers

TWELVE = {layer.name: layer.shape for layer in read_layers("twelve_layers")}
SMALL = ConvShape(n=3, c=4, h=11, w=13, k=6, r=3, s=3, padding=1, groups=2)
needs_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


@pytest.fixture(autouse=True)
def forgotten():
    yield
    conv.clear()


def test_over_the_limit_is_declined_with_both_numbers():
    shape = TWELVE["conv9"]
    needed = plan_layer(shape, algorithm="im2win_basic").program.workspace_bytes(shape)
    assert plan_layer(shape, algorithm="im2win_basic", workspace_limit=needed).program.workspace_bytes(shape) == needed
    with pytest.raises(UnsupportedSpec) as caught:
        plan_layer(shape, algorithm="im2win_basic", workspace_limit=needed - 1)
    assert str(needed) in caught.value.reason and str(needed - 1) in caught.value.reason
    reasons = {answer.algorithm: answer for answer in explain(shape, workspace_limit=0)}
    assert not reasons["im2win_basic"].supported and f"{needed} bytes is over the limit of 0 bytes" in \
        reasons["im2win_basic"].reason
    assert select(shape, workspace_limit=0) == select(shape)


def test_a_lighter_form_is_taken_where_the_heavier_was_not_asked_for():
    shape = TWELVE["conv9"]
    whole, image = (plan_layer(shape, algorithm="im2col", settings={"batch": b}) for b in ("whole", "image"))
    bytes_whole, bytes_image = (plan.program.workspace_bytes(shape) for plan in (whole, image))
    assert plan_layer(shape, algorithm="im2col") == plan_layer(shape, algorithm="im2col", workspace_limit=bytes_whole)
    assert plan_layer(shape, algorithm="im2col", workspace_limit=bytes_whole - 1) == image
    with pytest.raises(UnsupportedSpec, match=f"{bytes_whole} bytes is over the limit of {bytes_image}"):
        plan_layer(shape, algorithm="im2col", settings={"batch": "whole"}, workspace_limit=bytes_image)
    with pytest.raises(UnsupportedSpec, match=f"{bytes_image} bytes is over the limit of 1 bytes"):
        plan_layer(shape, algorithm="im2col", workspace_limit=1)


@pytest.mark.parametrize("limit, error", [(-1, ArgumentError), (1.5, ArgumentTypeError), (True, ArgumentTypeError),
                                          ("2G", ArgumentTypeError)])
def test_what_is_no_limit(limit, error):
    for call in (plan_layer, select, explain):
        with pytest.raises(error) as caught:
            call(SMALL, workspace_limit=limit)
        assert caught.value.argument == "workspace_limit" and caught.value.hint


@needs_cpu
def test_calls_honour_the_limit_for_every_batch():
    """A kernel is shared by batches; one whose workspace would be too large gets a kernel of its own, or none."""
    shape = ConvShape(n=1, c=4, h=11, w=13, k=6, r=3, s=3)
    one = plan_layer(shape, algorithm="im2col").program.workspace_bytes(shape)
    for n, batch in ((1, "whole"), (5, "image"), (1, "whole")):
        x, w, _ = reference.operands(replace(shape, n=n), settings.generator(n))
        limit = one + 100
        kernel = warpconv.specialize(replace(shape, n=n), device="cpu", algorithm="im2col", workspace_limit=limit)
        assert kernel.plan.settings() == {"batch": batch} and kernel.workspace_bytes(replace(shape, n=n)) <= limit
        for _ in range(2):
            out = warpconv.conv2d(x, w, device="cpu", algorithm="im2col", workspace_limit=limit)
            reference.expected(x, w, replace(shape, n=n)).check(out)
    with pytest.raises(UnsupportedSpec, match="over the limit of 7"):
        warpconv.conv2d(x, w, device="cpu", algorithm="im2col", workspace_limit=7)
    with env.scope(workspace_limit="3K"), pytest.raises(UnsupportedSpec, match="over the limit of 3072"):
        warpconv.specialize(shape, device="cpu", algorithm="im2col")
    with pytest.raises(ArgumentError, match="a plan has"):
        warpconv.specialize(shape, device="cpu", plan=plan_layer(shape), workspace_limit=7)


@pytest.mark.thin(2)
@needs_cpu
@pytest.mark.parametrize("algorithm, values", [("im2col", {"batch": "image"}), ("im2col", {"batch": "whole"}),
                                               ("im2win_basic", {})])
@pytest.mark.parametrize("epilogue", [(), ("bias", "relu")])
def test_planned_bytes_are_those_that_are_allocated(monkeypatch, algorithm, values, epilogue):
    pool = Pool()
    monkeypatch.setattr(backend._Executor, "allocate", pool.allocate)
    monkeypatch.setattr(backend._Executor, "release", pool.release)
    kernel = checks.check_layer("cpu", SMALL, algorithm, values,
                                [warpconv.codegen.spec.Epilogue(step) for step in epilogue])
    assert pool.most == kernel.workspace_bytes(SMALL) > 0 and pool.alive == {}


class Pool:
    """Records what is alive."""

    def __init__(self) -> None:
        self.alive: dict[str, int] = {}
        self.most = 0

    def allocate(self, workspace, nbytes: int) -> np.ndarray:
        self.alive[workspace.name] = nbytes
        self.most = max(self.most, sum(self.alive.values()))
        return np.full(nbytes, 0xff, np.uint8)

    def release(self, workspace, memory: np.ndarray) -> None:
        assert self.alive.pop(workspace.name) == memory.nbytes


@pytest.mark.parametrize("words, message", [
    (["explain", "--workspace-limit", "1M"], "over the limit of 1048576 bytes"),
    (["emit", "--algorithm", "im2win_basic", "--workspace-limit", "100"], "is over the limit of 100 bytes"),
    (["emit", "--workspace-limit", "1T"], "--workspace-limit"),
    (["emit", "--workspace-limit", "-1"], "--workspace-limit"),
    (["tune", "--workspace-limit", "1M"], "every configuration is measured")])
def test_the_limit_on_the_command_line(words, message):
    layer = ["--input", "8,64,56,56", "--filter", "64,3,3"]
    made = CliRunner().invoke(cli, [words[0], *layer, *words[1:]])
    assert message in " ".join(made.output.split()) and (made.exit_code == 0) == (words[0] == "explain")
    assert "Traceback" not in made.output


def test_the_environment_limits_the_command_line_and_layers_of_files(monkeypatch):
    layer = ["--input", "8,64,56,56", "--filter", "64,3,3", "--algorithm", "im2win_basic", "--json"]
    monkeypatch.setenv("WARPCONV_WORKSPACE_LIMIT", "64K")
    assert "over the limit of 65536 bytes" in CliRunner().invoke(cli, ["explain", *layer[:-3], "--json"]).output
    named = NamedLayer(name="conv9", shape=TWELVE["conv9"], algorithm="im2win_basic")
    with pytest.raises(UnsupportedSpec, match="over the limit of 65536"):
        named.plan("sm_90")
    monkeypatch.setenv("WARPCONV_WORKSPACE_LIMIT", "2G")
    record = json.loads(CliRunner().invoke(cli, ["inspect", *layer, "--no-source", "--no-measure"]).output)
    plan = named.plan("sm_90")
    assert record["workspace_bytes"] == plan.program.workspace_bytes(replace(TWELVE["conv9"], n=8)) > 0


@needs_cpu
def test_inspect_says_what_the_library_does():
    layer = ["--input", "1,2,9,9", "--filter", "2,3,3", "--algorithm", "im2col", "--no-source"]
    text = CliRunner().invoke(cli, ["inspect", *layer]).output
    assert "gemm_batch(w, columns, y, scratch): cuBLAS on a GPU, NumPy on the CPU device" in text
    record = json.loads(CliRunner().invoke(cli, ["inspect", *layer, "--json"]).output)
    assert record["library"] == ["library gemm_batch(w, columns, y, scratch)"]
    assert record["measured"]["worst_ratio"] < 1
