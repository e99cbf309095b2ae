"""Compiled templates beside the templates, as Python keeps compiled modules: in ``__pycache__``, or under
``PYTHONPYCACHEPREFIX``. Jinja takes ten times as long to compile a kernel's templates as to render them.

A file is used for the very source, Jinja, Python and environment (``identity``) that it was made from. Where the folder
cannot be written, templates are compiled in each process, as Python does with modules.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import sys
import tempfile
from typing import Any

import jinja2
from jinja2.bccache import Bucket, BytecodeCache


class CompiledTemplates(BytecodeCache):
    """Jinja's bytecode of the templates in ``folder``; ``identity``: what they depend on besides their source."""

    def __init__(self, folder: str, identity: bytes):
        self._folder = folder
        self._identity = hashlib.blake2b(identity + jinja2.__version__.encode(), digest_size=8).hexdigest()

    def get_bucket(self, environment: jinja2.Environment, name: str, filename: str | None, source: str) -> Any:
        made = _Bucket(environment, self.get_cache_key(name, filename), self.get_source_checksum(source))
        made.path = self._path(name)
        self.load_bytecode(made)
        return made

    def load_bytecode(self, bucket: _Bucket) -> None:
        with contextlib.suppress(OSError), open(bucket.path, "rb") as file:
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: _Bucket) -> None:
        if sys.dont_write_bytecode:
            return
        with contextlib.suppress(OSError):
            folder = os.path.dirname(bucket.path)
            os.makedirs(folder, exist_ok=True)
            descriptor, partial = tempfile.mkstemp(prefix=".template-", dir=folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    bucket.write_bytecode(file)
                os.chmod(partial, 0o644)
                os.replace(partial, bucket.path)
            except BaseException:
                os.unlink(partial)
                raise

    def _path(self, name: str) -> str:
        module = importlib.util.cache_from_source(os.path.join(self._folder, *name.split("/")))
        return f"{module.removesuffix('.pyc')}.{self._identity}.jinjac"


class _Bucket(Bucket):
    """Bytecode on its way, and where it is kept."""

    path: str
