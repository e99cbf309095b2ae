"""One builder at a time for a pack: a lock beside the pack, which says who holds it.

The lock is a file ``.NAME.lock`` in the pack's folder, held by flock() and removed by its holder: who may write the
pack may hold it, and nobody else. Where that folder cannot be written, it is in the user's cache folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from warpconv.codegen.errors import FileError
from warpconv.runtime import env

LOCK_SECONDS = 3600.0
RETRY_SECONDS = 0.1
_log = logging.getLogger("warpconv.pack")


@contextlib.contextmanager
def held(output: Path) -> Iterator[None]:
    """Hold the lock of the pack ``output``; who waits is told for whom. Where locking fails it goes on without.

    Raises FileError where another builder holds it for LOCK_SECONDS.
    """
    lock = _acquire(output)
    try:
        yield
    finally:
        if lock is not None:
            descriptor, path = lock
            with contextlib.suppress(OSError):
                os.unlink(path)         # still held: who waits for it sees that it is gone, and makes a new one
            os.close(descriptor)


def _acquire(output: Path) -> tuple[int, Path] | None:
    try:
        import fcntl    # noqa: F401    (absent on Windows)
    except ImportError:
        _log.info("building %s without a lock: no flock() here", output)
        return None
    name = hashlib.sha256(os.fsencode(os.path.realpath(output))).hexdigest()[:16]
    for path in (output.with_name(f".{output.name}.lock"), env.settings().cache_dir / "locks" / f"pack-{name}.lock"):
        try:
            return _wait(path, output)
        except FileError:
            raise
        except OSError as error:
            _log.info("no lock at %s: %s", path, error)
    return None


def _wait(path: Path, output: Path) -> tuple[int, Path]:
    """The lock's descriptor, once it is held. Raises OSError where it cannot be, FileError after LOCK_SECONDS."""
    import fcntl
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    deadline, told = time.monotonic() + LOCK_SECONDS, False
    while True:
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, path):
                _sign(descriptor)
                return descriptor, path
        except BlockingIOError:
            holder = _holder(descriptor)
            if not told:
                _log.warning("waiting for the pack %s, which is being built by %s", output, holder)
                told = True
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise FileError(f"the pack is being built by {holder}, for {LOCK_SECONDS:g} s already",
                                argument="output", value=str(output), hint=f"end it; its lock is {path}") from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        time.sleep(RETRY_SECONDS)


def _open(path: Path) -> int:
    flags = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags | os.O_RDWR | os.O_CREAT, 0o644)
    except PermissionError:         # another user's: it can be waited for all the same
        descriptor = os.open(path, flags | os.O_RDONLY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no regular file")
    return descriptor


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the file that was locked still has its name: its last holder may have removed it in between."""
    mine = os.fstat(descriptor)
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def _sign(descriptor: int) -> None:
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()} since {since}".encode(), 0)


def _holder(descriptor: int) -> str:
    try:
        text = os.pread(descriptor, 200, 0).decode(errors="replace")
    except OSError:
        text = ""
    return "".join(sign for sign in text if sign.isprintable()) or "another process"
