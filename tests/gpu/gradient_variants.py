"""The variants of gradients, which the CPU device executes, too, run on a GPU at their smallest sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tests import cases, checks, gradients, settings
from tests.algorithms import EVERY
from tests.cpu.test_gradients import NAMES
from tests.gpu import support
from warpconv.codegen.request import settings_of
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue
from warpconv.runtime import arrays
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.call import kernels, operands

ROOMS = [name for name, rows in EVERY.items() if rows.operation in NAMES.values()]
HOPPERS = ("filter_gradient_wgmma", "filter_gradient_tma", "phases_wgmma")      # rooms whose texts are for sm_90a
TAKES = {"dx": ("dy", "w", "b"), "dw": ("dy", "x"), "db": ("dy",)}      # what an output is made of


def of(name: str) -> list[tuple[cases.Case, ConvShape]]:
    """The variants of a room that this GPU runs, and their layers."""
    if name in HOPPERS and not support.arch().startswith("sm_90"):
        return []
    return [(case, case.sizes()[0]) for case in cases.variants(name)]


def compile_ahead(chosen: Iterable[tuple[cases.Case, ConvShape]]) -> None:
    checks.compile_ahead(build, [case.plan(support.arch(), shape) for case, shape in chosen], support.COMPILERS)


def run(case: cases.Case, shape: ConvShape, times: int = 1, placed: Callable[[Any], Any] = lambda array: array) -> None:
    """A variant's result beside float64; ``placed``: where its arrays lie, on the host if not said."""
    numerics = case.plan(support.arch(), shape).spec.numerics
    made = gradients.make(settings.generator(case.number), shape, bias=Epilogue.BIAS in case.epilogue,
                          numerics=numerics)
    output = gradients.OUTPUTS[case.operation]
    ask = kernels.asked(shape, 0, algorithm=case.algorithm, operation=case.operation, epilogue=case.epilogue,
                        numerics=case.numerics)
    ask = ask._replace(request=replace(ask.request, settings=settings_of(dict(case.values))))
    given = {"bias" if key == "b" else key: getattr(made, key) for key in TAKES[output]}
    given = {key: placed(array) for key, array in given.items() if array is not None}
    read = {key: operands.Operand(key, array, arrays.view(array, key)) for key, array in given.items()}
    wanted = getattr(made, output)
    for _ in range(times):
        found = operands.run(ask, read, output, wanted.output.shape, None, None, None)
        wanted.check(found.get() if hasattr(found, "get") else found, case.id)
