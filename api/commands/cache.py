"""``warpconv cache``: the disk cache of compiled kernels."""

from __future__ import annotations

import sys
from typing import Any

import click

from .output import add_row, console, echo_record, heading, json_option, say, size_text, table

DAMAGED = 1     # exit code of verify


@click.group()
def cache() -> None:
    """List, clear, trim or verify the disk cache."""


@cache.command("list")
@json_option
def list_entries(as_json: bool) -> None:
    """List the entries, without checking their files."""
    _show(_record({}), as_json)


@cache.command()
@json_option
@click.pass_context
def verify(ctx: click.Context, as_json: bool) -> None:
    """Check the checksums of all entries; exit code 1 if one is damaged (it counts as absent, nothing breaks)."""
    problems = dict(_cache().verify())
    _show(_record(problems), as_json, checked=True)
    if any(problems.values()):
        ctx.exit(DAMAGED)


@cache.command()
@click.argument("match", required=False)
@json_option
def clear(match: str | None, as_json: bool) -> None:
    """Remove the entries, or those whose name contains MATCH (or fits it, if it has * or ?)."""
    removed = _cache().clear(match)
    if as_json:
        echo_record(_record({}, removed=removed))
        return
    say(f"removed {removed} {'entry' if removed == 1 else 'entries'} from {_cache().root}")


@cache.command()
@click.option("--size", metavar="BYTES", default=None, help="What may stay, as 512M (default: WARPCONV_CACHE_LIMIT).")
@json_option
def trim(size: str | None, as_json: bool) -> None:
    """Remove the entries used longest ago, until the rest is within the limit."""
    done = _cache().trim(_limit(size))
    if as_json:
        echo_record(_record({}, removed=done.removed))
        return
    entries = "entry" if done.removed == 1 else "entries"
    say(f"removed {done.removed} {entries}, {size_text(done.freed)}, from {_cache().root}; "
               f"{size_text(done.left)} left")


def _limit(size: str | None) -> int:
    from warpconv.codegen.errors import ArgumentError
    from warpconv.runtime import env
    if size is None:
        return env.settings().cache_limit or sys.maxsize        # 0: no limit
    try:
        return env.parse_bytes(size)
    except ValueError as error:
        raise ArgumentError("this is no size", argument="--size", value=size, hint=str(error)) from None


def _cache() -> Any:
    from warpconv.runtime.build.cache import DiskCache
    return DiskCache()


def _record(problems: dict[str, str | None], removed: int | None = None) -> Any:
    from warpconv.records.machine import CacheEntryRow, CacheRecord
    from warpconv.runtime.env import settings
    rows = tuple(CacheEntryRow(key=row.key, name=row.name, bytes=row.size, modified=row.mtime,
                               problem=problems.get(row.key)) for row in _cache().entries())
    return CacheRecord(folder=str(_cache().root), enabled=not settings().disable_cache, entries=rows, removed=removed)


def _show(record: Any, as_json: bool, checked: bool = False) -> None:
    if as_json:
        echo_record(record)
        return
    import datetime
    out = console()
    heading(out, "cache", record.folder + ("" if record.enabled else " (switched off by WARPCONV_DISABLE_CACHE)"))
    made = table("entry", "digest", "size", "made", *(("state",) if checked else ()), numbers=("size",))
    for row in record.entries:
        when = datetime.datetime.fromtimestamp(row.modified).isoformat(" ", "seconds")
        state = (row.problem or "good",) if checked else ()
        add_row(made, row.name, row.key.removeprefix(f"{row.name}-")[:12], size_text(row.bytes), when, *state,
                style="red" if row.problem else None)
    if record.entries:
        out.print(made)
    heading(out, "total", f"{len(record.entries)} entries, {size_text(sum(row.bytes for row in record.entries))}")
