"""Running one layer through its emitted kernel and holding every output against the float64 reference."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from warpconv.codegen.classes import replace
from warpconv.codegen.errors import ToolNotFound
from warpconv.codegen.plan import Blocks, KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Numerics, Operation
from warpconv.runtime import arrays
from warpconv.runtime.call.checks import Call
from warpconv.runtime.call.conv import specialize
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.devices.cpu import LaunchReport, Mode, backend, find_toolchain

from . import gradients, pitches, reference, settings
from .cases import Case


@functools.lru_cache(maxsize=1)
def no_cpu_device() -> str | None:
    """Why there is no CPU device here; None where there is one."""
    try:
        find_toolchain()
    except ToolNotFound as error:
        return str(error)
    return None


def planned(shape: ConvShape, algorithm: str = "auto", values: Mapping[str, Any] | None = None,
            epilogue: Iterable[Epilogue] = (), arch: str = "sm_90",
            numerics: Numerics | str = Numerics.FLOAT32) -> KernelPlan:
    """The plan of a layer with plan values over the defaults."""
    return plan_layer(shape, algorithm=algorithm, arch=arch, epilogue=tuple(epilogue), settings=values,
                      numerics=numerics)


def cpu_kernel(plan: KernelPlan, mode: Mode = Mode.FAST) -> Kernel:
    """A plan's kernel on the CPU device, in either mode (``specialize`` always makes the fast one); found again by its
    text, so that an edit of the generator compiles only what it changes."""
    loaded, source = backend.load_text(plan.spec, plan.program, render(plan).text, mode=mode)
    return Kernel(plan.spec, plan.program, loaded, source=source, plan=plan)


def of_one_block(plan: KernelPlan) -> KernelPlan:
    """The plan with one block along the tiles of its only launch, which has to stay for all of them."""
    only, = plan.program.steps
    alone = replace(only, grid=(Blocks(), *only.grid[1:]))
    return replace(plan, program=replace(plan.program, steps=(alone,)))


def compile_ahead(load: Callable[[Any], Any], plans: Iterable[Any], workers: int = 2) -> None:
    """Build kernels side by side; compilers are other processes. Errors are left to the test that needs the kernel."""
    def one(plan: Any) -> None:
        try:
            load(plan)
        except Exception:       # whatever it is, the test meets it again and shows it
            pass

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, plans))


def check_kernel(kernel: Kernel, shape: ConvShape, *, seed: int = 0) -> np.ndarray:
    """Call ``kernel`` on random arrays of ``shape``, its type and its layout, with poisoned output memory;
    AssertionError if a value is wrong."""
    spec, kernel = kernel.spec, kernel.for_border(shape.padding_value)
    if spec.operation is not Operation.FORWARD:
        return check_gradient(kernel, shape, seed=seed)
    x, w, bias = reference.operands(shape, settings.generator(seed))
    given = bias if Epilogue.BIAS in spec.epilogue else None
    residual = reference.residual(shape, settings.generator(seed + 1)) if Epilogue.RESIDUAL in spec.epilogue else None
    x = pitches.placed(x, shape.x_pitch, shape.layout)
    residual = residual if residual is None else pitches.placed(residual, shape.y_pitch, shape.layout)
    out = pitches.placed(reference.poisoned(shape), shape.y_pitch, shape.layout)
    before, around = (x.copy(), w.copy()), pitches.between(out) if shape.y_pitch else None
    result = kernel(x, w, given, residual=residual, out=out)
    assert result is out
    assert np.array_equal(x, before[0]) and np.array_equal(w, before[1]), "the kernel wrote to its input"
    assert around is None or np.array_equal(around, pitches.between(out)), "the kernel wrote between the output's rows"
    wanted = reference.expected(x, w, shape, bias=given, residual=residual, epilogue=spec.epilogue,
                                numerics=spec.numerics)
    wanted.check(out, f"{kernel!r}, {shape}, values {kernel.plan.settings() if kernel.plan else 'of a pack'}")
    return out


def check_gradient(kernel: Kernel, shape: ConvShape, *, seed: int = 0) -> np.ndarray:
    """Call the kernel of a gradient, on the CPU device, on random arrays of ``shape`` with poisoned output memory,
    twice; AssertionError if a value is wrong, or the bits of the second call differ."""
    spec = kernel.spec
    made = gradients.make(settings.generator(seed), shape, bias=Epilogue.BIAS in spec.epilogue,
                          numerics=spec.numerics)
    name = gradients.OUTPUTS[spec.operation]
    wanted: reference.Expected = getattr(made, name)
    given = {"x": made.x, "w": made.w, "dy": made.dy, "bias": made.b}
    given = {a.name: given[a.name] for a in kernel.program.arguments if given.get(a.name) is not None}
    before, found = {key: array.tobytes() for key, array in given.items()}, []
    for _ in range(2):
        out = np.empty(wanted.output.shape, made.x.dtype)
        out.view(np.uint8)[...] = 0xff      # NaN of every type
        operands = {key: arrays.view(array, key) for key, array in {**given, name: out}.items()}
        kernel.backend.run(Call(shape, operands), None, None)
        found.append(out)
    assert before == {key: array.tobytes() for key, array in given.items()}, "the kernel wrote to its input"
    wanted.check(found[0], f"{kernel!r}, {shape}, values {kernel.plan.settings()}")
    assert found[0].tobytes() == found[1].tobytes(), "equal inputs give equal bits"
    return found[0]


def check_case(case: Case, shapes: Iterable[ConvShape], kernel_of: Callable[[KernelPlan, ConvShape], Kernel], *,
               arch: str = "sm_90", seed: int = 0) -> int:
    """Check a case at these sizes, with as few plans as serve them (``kernel_of`` a plan and one such size); how many
    sizes its planner took."""
    done = 0
    for plan, served in case.plans(tuple(shapes), arch):
        kernel = kernel_of(plan, served[0])
        for shape in served:
            check_kernel(kernel, shape, seed=seed + done)
            done += 1
    return done


def check_layer(device: str, shape: ConvShape, algorithm: str = "auto", values: Mapping[str, Any] | None = None,
                epilogue: Iterable[Epilogue] = (), *, seed: int = 0) -> Kernel:
    """Specialise a layer for ``device`` ('cpu' or 'cuda') and check it; the kernel, for what else a test asks."""
    kernel = specialize(shape, device=device, algorithm=algorithm, settings=values, epilogue=tuple(epilogue))
    check_kernel(kernel, shape, seed=seed)
    return kernel


def check_checked(plan: KernelPlan, shape: ConvShape, *, seed: int = 0) -> tuple[LaunchReport, ...]:
    """Run a plan in CHECK mode: right values, no fault (which would raise), every output written; the reports."""
    kernel = cpu_kernel(plan, Mode.CHECK)
    loaded = kernel._backend
    before = len(loaded.reports)
    check_kernel(kernel, shape, seed=seed)
    return tuple(loaded.reports[before:])
