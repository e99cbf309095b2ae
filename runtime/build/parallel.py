"""Work on several kernels at the same time, in threads: the compilers run outside of Python's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextvars import copy_context
from typing import Any

from warpconv.codegen.errors import ArgumentError
from warpconv.runtime import env

from .patience import Group, group


def workers_of(given: Any, argument: str) -> int:
    """How many threads: ``given``, or WARPCONV_COMPILE_JOBS if None. Raises ArgumentError."""
    workers = env.settings().compile_jobs if given is None else given
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise ArgumentError(f"{argument} is a whole number of at least 1", argument=argument, value=given)
    return workers


def as_done(work: Callable[[Any], Any], items: Sequence[Any], workers: int) -> Iterator[tuple[Any, Future]]:
    """Each item with its finished future, as they are done, under the settings (``env.scope``) of the caller. Where the
    caller stops early, what has not begun is not begun, and compilations under way are ended (not those of another
    as_done in ``work``)."""
    pool = ThreadPoolExecutor(min(workers, max(1, len(items))), thread_name_prefix="warpconv-build")
    together, context = Group(), copy_context()
    context.run(group.set, together)
    try:
        futures = {pool.submit(context.copy().run, work, item): item for item in items}
        for future in as_completed(futures):
            yield futures[future], future
    finally:
        together.end()
        pool.shutdown(cancel_futures=True)
