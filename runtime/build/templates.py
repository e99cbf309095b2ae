"""Rendering with compiled templates that are kept on disk: Jinja takes ten times as long to compile a kernel's
templates as to render them.

They lie beside the templates, as Python keeps compiled modules: in ``__pycache__``, or under ``PYTHONPYCACHEPREFIX``;
where that cannot be written, or Python is told to write none (``PYTHONDONTWRITEBYTECODE``), in the cache directory. A
file is used for the very source, Jinja, Python and environment (``identity``) that it was made from. Where neither can
be written, templates are compiled in each process.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.templates import Overlay
from warpconv.runtime import env, paths

if TYPE_CHECKING:
    from warpconv.codegen.render import KernelSource


def laid_over(settings: env.Settings | None = None) -> Overlay | None:
    """The templates that WARPCONV_TEMPLATES lays over warpconv's, as they are now. Raises FileError."""
    return Overlay.of((settings or env.settings()).templates)


def source_of(plan: KernelPlan, templates: Overlay | None) -> KernelSource:
    """The text of a plan, as ``render`` gives it."""
    from warpconv.codegen import render as codegen_render       # which a kernel from the disk spares
    settings = env.settings()
    _keep_templates(None if settings.disable_cache else str(settings.cache_dir / "templates"))
    return codegen_render.render(plan, templates)


@functools.lru_cache(maxsize=1)
def _keep_templates(second: str | None) -> None:
    """Give Jinja's environment a place for compiled templates, as long as ``second`` stays the same."""
    from warpconv.codegen import render as codegen_render
    folder = resources.files("warpconv.templates")
    if isinstance(folder, os.PathLike):     # and no zip; filters, too, are applied as a template is compiled
        identity = Path(codegen_render.__file__).read_bytes()
        codegen_render.environment().bytecode_cache = CompiledTemplates(os.fspath(folder), second, identity)


class CompiledTemplates:
    """A cache for ``jinja2.Environment.bytecode_cache``: in ``folder``, the templates' own, or else in ``second``.
    ``identity``: what a compiled template depends on besides its source."""

    def __init__(self, folder: str, second: str | None, identity: bytes):
        import jinja2
        self._folder = folder
        self._second = second
        self._identity = hashlib.blake2b(identity + jinja2.__version__.encode(), digest_size=8).hexdigest()

    def get_bucket(self, environment: Any, name: str, filename: str | None, source: str) -> Any:
        """What Jinja asks before it compiles: a bucket, with code if it is there."""
        from jinja2.bccache import Bucket
        bucket = Bucket(environment, name, hashlib.blake2b(source.encode(), digest_size=16).hexdigest())
        for path in self._paths(name):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                bucket.load_bytecode(file)
            if bucket.code is not None:
                break
        return bucket

    def set_bucket(self, bucket: Any) -> None:
        """What Jinja gives after it has compiled."""
        for path in self._kept(bucket.key) if sys.dont_write_bytecode else self._paths(bucket.key):
            with contextlib.suppress(OSError):
                _write(bucket, path)
                return

    def _paths(self, name: str) -> list[str]:
        source = os.path.join(self._folder, *name.split("/"))
        beside = [importlib.util.cache_from_source(source)] if paths.exists(source) else []   # else from elsewhere
        return [f"{path.removesuffix('.pyc')}.{self._identity}.jinjac" for path in beside] + self._kept(name)

    def _kept(self, name: str) -> list[str]:
        """Where it may lie in the cache directory, if there is one."""
        if self._second is None:
            return []
        file = f"{name.replace('/', '-')}.{sys.implementation.cache_tag}.{self._identity}.jinjac"
        return [os.path.join(self._second, file)]


def _write(bucket: Any, path: str) -> None:
    """Whole or not at all. Raises OSError."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(prefix=".template-", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            bucket.write_bytecode(file)
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
