"""The case table and the variants on a GPU, against the float64 reference."""

from __future__ import annotations

import pytest

from tests import cases, checks
from tests.cases import Case
from tests.gpu import support
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def built(request: pytest.FixtureRequest) -> None:
    """What the chosen tests of this module need is compiled side by side, before the first of them."""
    chosen = (item.callspec.params.get("case") for item in request.session.items
              if item.module is request.module and hasattr(item, "callspec"))
    support.build_ahead([case for case in chosen if case is not None])


@pytest.mark.parametrize("case", cases.table(), ids=lambda case: case.id)
def test_values(case: Case):
    done = checks.check_case(case, case.sizes(), support.kernel_of, arch=support.arch(), seed=1000 * case.number)
    assert done == len(case.sizes())


@pytest.mark.parametrize("case", cases.variants(), ids=lambda case: case.id)
def test_variants(case: Case):
    sizes = ((1, 40, 61), (1, 40, 64)) if "d" in dict(case.layer) else ((2, 200, 301), (2, 200, 304))
    larger = tuple(case.shape(*size) for size in sizes)
    assert checks.check_case(case, (*case.sizes(), *larger), support.kernel_of, arch=support.arch(), seed=case.number)


@pytest.mark.parametrize("exchange", ["select", "packed", "none"])
@pytest.mark.parametrize("size", range(1, 14))
def test_fast_paths_use_no_local_memory(size, exchange):
    shape = ConvShape(c=1, h=1024, w=1024, k=1, r=size, s=size, padding="same")
    plan = plan_layer(shape, algorithm="reuse", arch=support.arch(), settings={"exchange": exchange})
    kernel = support.kernel_of(plan)
    assert support.local_bytes(kernel) == 0, plan.settings()
    assert kernel.report.entry(plan.spec.name).stack_bytes == 0


@pytest.mark.parametrize("layer", [dict(c=3, k=64, r=3, s=3), dict(c=64, k=64, r=3, s=3), dict(c=3, k=96, r=7, s=7),
                                   dict(c=32, k=32, r=5, s=5, groups=32), dict(c=96, k=256, r=5, s=5)])
@pytest.mark.parametrize("algorithm", ["reuse", "direct"])
def test_layers_of_networks_use_no_local_memory(layer, algorithm):
    plan = plan_layer(ConvShape(n=128, h=56, w=56, padding="same", **layer), algorithm=algorithm, arch=support.arch())
    kernel = support.kernel_of(plan)
    assert support.local_bytes(kernel) == 0
    checks.check_kernel(kernel, ConvShape(n=2, h=56, w=56, padding="same", **layer))


def test_forced_local_memory_is_there():
    plan = plan_layer(ConvShape(c=1, h=64, w=64, k=1, r=5, s=5), algorithm="reuse", arch=support.arch(),
                      settings={"exchange": "dynamic_local"})
    assert support.local_bytes(support.kernel_of(plan)) > 0
