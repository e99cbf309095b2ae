"""Options, the tests' own cache directory, and skips that say why."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import secrets
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

import hypothesis
import jinja2
import pytest

import warpconv
from tests import settings
from warpconv.codegen.render import environment

TESTS = Path(__file__).parent
GARBAGE = 500_000       # objects made between two looks for garbage: at the usual 700 these took 33 of 813 seconds
DAYS = 14               # that a kernel is kept which no run has made or read
QUICK = "not long"      # what setup.cfg selects
MOST_LONG = 3           # parameters of a test that are run among the long ones, but for the case table's


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("warpconv")
    group.addoption("--seed", type=_seed, default=settings.USUAL_SEED,
                    help="seed of everything drawn: a number (default: %(default)s), or 'new' for one that is printed")
    group.addoption("--drawn", type=int, default=None,
                    help=f"layers to draw (default: {settings.DRAWN_ON_CPU} on the CPU device, "
                         f"{settings.DRAWN_LONG} there in a long test, {settings.DRAWN_ON_GPU} on a GPU)")
    group.addoption("--whole", action="store_true",
                    help="with all that is long and every parameter of it, the whole case table at all sizes, and more "
                         "of what is drawn")
    group.addoption("--update-golden", action="store_true", help="write texts under review anew instead of comparing")


def _seed(text: str) -> int:
    return secrets.randbelow(2**31) if text == "new" else int(text)


def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(GARBAGE)
    os.fsync = lambda descriptor: None      # no test's files outlast a power cut; to wait for disks took 15 s of 870
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")      # of workers, whose threads would wait for each other
    settings.seed = config.getoption("--seed")
    # Hypothesis's own tests draw the same each time, too, unless another seed is asked for
    hypothesis.settings.register_profile("same", derandomize=settings.seed == settings.USUAL_SEED)
    hypothesis.settings.load_profile("same")
    settings.drawn = config.getoption("--drawn")
    settings.whole = config.getoption("--whole")
    settings.update_golden = config.getoption("--update-golden")
    if settings.whole and config.option.markexpr == QUICK:
        config.option.markexpr = ""
    # The tests never see, fill or clear the user's cache. Theirs stays between runs: its keys hold all that decides a
    # kernel. ``pytest --cache-clear`` empties it. Tests of caches have folders of their own.
    try:
        folder = config.cache.mkdir("warpconv")
    except (AttributeError, OSError):           # -p no:cacheprovider, or a tree that cannot be written
        folder = Path(tempfile.mkdtemp(prefix="warpconv-tests-"))
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    if not hasattr(config, "workerinput"):
        _forget_old(folder / "entries")
    os.environ["WARPCONV_CACHE_DIR"] = str(folder)
    from tests.runtime import device_object     # late: its folder is in that one
    device_object.keep()
    (folder / "templates").mkdir(exist_ok=True)             # Jinja takes four seconds to compile all templates
    environment().bytecode_cache = jinja2.FileSystemBytecodeCache(str(folder / "templates"))
    warpconv.IMPORTED = 0       # a plan that a test had a hand in is noted for nobody (runtime/build/notes.py)


def _forget_old(entries: Path) -> None:
    """Entries that no run has made or read for some days."""
    for path in entries.iterdir() if entries.exists() else ():
        meta = path / "meta.json"
        if not meta.exists() or time.time() - max(meta.stat().st_atime, meta.stat().st_mtime) > DAYS * 86400:
            shutil.rmtree(path, ignore_errors=True)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Of all tests' modules each worker imports a share before it collects: it takes pytest 15 s to rewrite the
    assertions of all, and what one worker has rewritten the others read."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args_source is pytest.Config.ArgsSource.ARGS:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for path in sorted(TESTS.rglob("test_*.py"))[number::count]:
        with contextlib.suppress(Exception, pytest.skip.Exception):        # collecting meets it again, and tells
            importlib.import_module(".".join(("tests", *path.relative_to(TESTS).with_suffix("").parts)))


def pytest_report_header(config: pytest.Config) -> str:
    return f"warpconv: --seed {settings.seed} draws the same layers again"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _thin(items)
    if not settings.whole:
        _leave_out(config, items)
    marked = {name: [item for item in items if item.get_closest_marker(name)] for name in ("gpu", "nvcc")}
    for name, reason in (("gpu", _no_gpu), ("nvcc", _no_compiler)):
        why = reason() if marked[name] else None
        if why is not None:
            _skip(config, items, marked[name], why)


def pytest_collection_finish() -> None:
    """Ten thousand collected tests are not looked through for garbage time and again."""
    gc.collect()
    gc.freeze()


def _skip(config: pytest.Config, items: list[pytest.Item], skipped: list[pytest.Item], why: str) -> None:
    """Skip tests with a reason: of each its first parameter says so, for all, the quick one's where there is one, since
    four thousand skipped tests take ten seconds."""
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in sorted(skipped, key=lambda item: item.get_closest_marker("long") is not None):
        tests[item.nodeid.split("[")[0]].append(item)
    for first, *rest in tests.values():
        first.add_marker(pytest.mark.skip(reason=why + (f" ({1 + len(rest)} parameters)" if rest else "")))
    left = {id(item) for _, *rest in tests.values() for item in rest}
    config.hook.pytest_deselected(items=[item for item in items if id(item) in left])
    items[:] = [item for item in items if id(item) not in left]


def _thin(items: list[pytest.Item]) -> None:
    """Of a test marked ``thin(n)``, the parameters that are ``long``: all but one in n of those collected."""
    met: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("thin")
        if mark is not None:
            name = item.nodeid.split("[")[0]
            if met[name] % mark.args[0]:
                item.add_marker(pytest.mark.long)
            met[name] += 1


def _leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test's long parameters, all but MOST_LONG, evenly spread. The case table has shares of its own (room.py)."""
    long: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("long") and "case" not in getattr(item, "fixturenames", ()):
            long[item.nodeid.split("[")[0]].append(item)
    left = {id(item) for found in long.values() for number, item in enumerate(found)
            if number * MOST_LONG // len(found) == (number - 1) * MOST_LONG // len(found)}
    if left:
        config.hook.pytest_deselected(items=[item for item in items if id(item) in left])
        items[:] = [item for item in items if id(item) not in left]


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
