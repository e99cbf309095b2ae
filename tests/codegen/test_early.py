"""Launches that begin while the one before them ends: their texts wait for its end before they read what it stored."""

from __future__ import annotations

import re

import pytest

from tests.algorithms import ROWS
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.plan import Launch, Role
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

FEW_TILES = dict(n=1, c=512, h=7, w=7, k=512, r=3, s=3, padding=1)
LAYERS = [{**FEW_TILES, "dtype": dtype, "layout": layout}
          for dtype in ("float16", "bfloat16", "float32") for layout in ("NHWC", "NCHW")]
WAIT = re.compile(r"wc_wait_for_launch\(\);|wc_stored_by_launch\((\w+)\);")


def planned(algorithm, arch, **more):
    """Plans of the algorithm's own layer and of some with few tiles, in several numerics."""
    for layer in (ROWS[algorithm].typical, *LAYERS):
        for precision in ("float32", "tf32") if layer.get("dtype", "float32") == "float32" else ("float32",):
            try:
                yield plan_layer(ConvShape(**layer), algorithm=algorithm, arch=arch, precision=precision, **more)
            except UnsupportedSpec:
                continue


def body(text, entry):
    """Of a kernel, from its arguments on."""
    return re.search(rf"^extern \"C\" __global__ [^{{]*\b{entry}\(.*?^}}$", text, re.MULTILINE | re.DOTALL).group()


def served(algorithm):
    return [plan for plan in planned(algorithm, "sm_90a") if any(step.early for step in plan.program.launches)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_early_launches_wait_before_they_read_and_those_before_let_them_begin(algorithm):
    for plan in served(algorithm):
        text, steps = render(plan).text, plan.program.steps
        for before, step in zip((None, *steps), steps):
            if not step.early:
                assert not WAIT.search(body(text, step.entry)), step.entry
                continue
            assert isinstance(before, Launch) and "wc_launch_next();" in body(text, before.entry)
            of_step = body(text, step.entry)
            wait = WAIT.search(of_step)
            parameters, ahead = of_step[:wait.start()].split("{", 1)
            for name in step.arguments:
                role = plan.program.argument(name).role
                if role is Role.WORKSPACE and name in before.arguments:
                    assert wait[1] == name and f" {name}" in parameters and name not in ahead
                    assert len(re.findall(rf"\b{name}\b", of_step)) == 2        # its parameter, and what waits
                elif role in (Role.DESCRIPTOR, Role.OUTPUT):
                    assert not re.search(rf"\b{name}\b", ahead), (step.entry, name)
            # nothing but sizes, and leaving where there is no output, comes before
            assert not re.search(r"\bwc_|__ldg|\[[^\]]*\] ?=", ahead.replace("wc_launch_next();", "")), ahead


def test_which_algorithms_have_them():
    found = {algorithm: {step.entry.split("_")[0] for plan in served(algorithm) for step in plan.program.launches
                         if step.early} for algorithm in ALGORITHMS}
    assert {a: e for a, e in found.items() if e} == {"mma": {"add"}, "wgmma": {"add", "wgmma"}}


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_older_gpus_have_none(arch):
    for plan in planned("mma", arch):
        assert "griddepcontrol" not in render(plan).text and not any(step.early for step in plan.program.launches)


def test_a_step_alone_is_not_early(monkeypatch):
    """What the stream has before it is not of its program."""
    from warpconv.runtime.call.kernel import Kernel
    plan = next(iter(served("mma")))
    made = []

    class Backend:
        def for_program(self, program):
            made.append(program)
            return self

    kernel = Kernel.__new__(Kernel)
    kernel.program, kernel._backend = plan.program, Backend()
    monkeypatch.setattr(Kernel, "__init__", lambda *_, **__: None)
    for name in ("spec", "source", "report", "axes", "padding_value"):
        setattr(kernel, name, None)
    kernel.only(len(plan.program.steps) - 1)
    (program,) = made
    assert not program.steps[0].early and plan.program.steps[-1].early
