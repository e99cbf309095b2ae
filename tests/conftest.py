"""Options, the run's own cache directory, and skips that say why."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile

import pytest

from tests import settings

_cache: str | None = None


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("warpconv")
    group.addoption("--seed", type=int, default=None, help="seed of everything drawn (default: a new one, printed)")
    group.addoption("--drawn", type=int, default=None,
                    help=f"layers to draw (default: {settings.DRAWN_ON_CPU} on the CPU device, "
                         f"{settings.DRAWN_WHOLE} there with --whole, {settings.DRAWN_ON_GPU} on a GPU)")
    group.addoption("--whole", action="store_true",
                    help="the CPU ring: the whole case table and all sizes (default: a part with every value of every "
                         "axis; many minutes less)")
    group.addoption("--update-golden", action="store_true", help="write tests/golden/*.cu anew instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    global _cache
    given = config.getoption("--seed")
    settings.seed = secrets.randbelow(2**31) if given is None else given
    settings.drawn = config.getoption("--drawn")
    settings.whole = config.getoption("--whole")
    settings.update_golden = config.getoption("--update-golden")
    config.addinivalue_line("markers", "builds: may make a kernel (in tests of bad input, where others must not)")
    # a cache of this run's own: tests never see, fill or clear the user's
    _cache = tempfile.mkdtemp(prefix="warpconv-tests-")
    os.environ["WARPCONV_CACHE_DIR"] = os.path.join(_cache, "cache")


def pytest_unconfigure(config: pytest.Config) -> None:
    if _cache is not None:
        shutil.rmtree(_cache, ignore_errors=True)


def pytest_report_header(config: pytest.Config) -> str:
    return f"warpconv: --seed {settings.seed} draws the same layers again"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marked = {name: [item for item in items if item.get_closest_marker(name)] for name in ("gpu", "nvcc")}
    for name, reason in (("gpu", _no_gpu), ("nvcc", _no_compiler)):
        why = reason() if marked[name] else None
        if why is not None:
            for item in marked[name]:
                item.add_marker(pytest.mark.skip(reason=why))


def _no_gpu() -> str | None:
    from warpconv.runtime.devices.cuda import contexts
    reason = contexts.usable()
    return None if reason is None else f"no GPU: {reason}"


def _no_compiler() -> str | None:
    from warpconv.codegen.errors import ToolNotFound
    from warpconv.runtime.build import compilers
    try:
        compilers.choose()
    except ToolNotFound as error:
        return str(error)
    return None
