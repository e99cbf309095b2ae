"""KernelPlan -> KernelSource: the only place that knows Jinja."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from .banner import banner_lines
from .errors import ArgumentTypeError
from .plan import KernelPlan

_PACKAGE = "warpconv.templates"


@dataclass(frozen=True, kw_only=True)
class KernelSource:
    """Emitted CUDA: ``text`` with its ``extern "C"`` ``entries``, and the plan it came from."""

    plan: KernelPlan
    text: str

    @property
    def entries(self) -> tuple[str, ...]:
        return self.plan.program.entries

    @property
    def digest(self) -> str:
        """blake2b of the text, 32 hex digits."""
        return hashlib.blake2b(self.text.encode(), digest_size=16).hexdigest()

    def __str__(self) -> str:
        return self.text


def render(plan: KernelPlan) -> KernelSource:
    """The CUDA source of a plan; byte-identical for equal plans in every process."""
    if not isinstance(plan, KernelPlan):
        raise ArgumentTypeError("render takes a KernelPlan", argument="plan", value=type(plan).__name__,
                                hint="warpconv.plan_layer(shape) makes one")
    context = {"plan": plan, "spec": plan.spec, "options": plan.options, "numbers": plan.numbers,
               "arguments": plan.program.arguments, "banner": banner_lines(plan)}
    parts = [environment().get_template(name).render(context) for name in plan.templates]
    return KernelSource(plan=plan, text="\n".join(parts))


@functools.lru_cache(maxsize=1)
def environment() -> Any:
    """The strict Jinja environment that every template is rendered in."""
    import jinja2  # imported late: a pack is served without it

    def load(name: str) -> str | None:
        source = resources.files(_PACKAGE).joinpath(name)
        return source.read_text(encoding="utf-8") if source.is_file() else None

    made = jinja2.Environment(loader=jinja2.FunctionLoader(load), undefined=jinja2.StrictUndefined, trim_blocks=True,
                              lstrip_blocks=True, keep_trailing_newline=True, autoescape=False)
    made.filters["indent_code"] = _indent_code
    return made


def _indent_code(text: str, n: int) -> str:
    """As Jinja's indent, the first line too, but lines of the preprocessor stay at the left, as everywhere else."""
    return "".join(line if line[0] in "#\n" else " " * n + line for line in text.splitlines(keepends=True))


@functools.lru_cache(maxsize=1)
def generator_digest() -> str:
    """blake2b over the templates and this package's own code: equal digests emit equal text for equal plans."""
    digest = hashlib.blake2b(digest_size=16)
    for package, suffix in ((_PACKAGE, ".jinja"), ("warpconv.codegen", ".py")):
        for path, data in sorted(_files(resources.files(package), "", suffix)):
            digest.update(f"{package}/{path}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def _files(folder: Any, prefix: str, suffix: str) -> list[tuple[str, bytes]]:
    found = []
    for item in folder.iterdir():
        if item.is_dir():
            found += _files(item, f"{prefix}{item.name}/", suffix)
        elif item.name.endswith(suffix):
            found.append((prefix + item.name, item.read_bytes()))
    return found
