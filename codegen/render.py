"""KernelPlan -> KernelSource: the only place that knows Jinja."""

from __future__ import annotations

import functools
import hashlib
import sys
from importlib import resources
from pathlib import Path, PurePath
from typing import Any

from .banner import banner_lines
from .classes import dataclass
from .epilogue import Epilogue
from .errors import ArgumentTypeError, UnsupportedSpec, WarpconvError
from .parts.text import MOST_BYTES
from .plan import KernelPlan
from .templates import FILENAME, PACKAGE, Overlay, beside, failure, find, package_of
from .text import tidy

_ALGORITHMS = "warpconv.codegen.algorithms."


@dataclass(frozen=True, kw_only=True)
class KernelSource:
    """Emitted CUDA, as render() makes it.

    Attributes
    ----------
    plan : KernelPlan
        What it was made of.
    text : str
        The source: one translation unit with its ``extern "C"`` entries.
    """

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


def render(plan: KernelPlan, templates: Overlay | PurePath | str | None = None) -> KernelSource:
    """The CUDA source of a plan; byte-identical for equal plans in every process.

    Parameters
    ----------
    plan : KernelPlan
        As plan_layer() and plan() make it.
    templates : path, optional
        A folder whose files take the place of warpconv's templates of the same names (``wide/kernel.cu.jinja``), to
        try an idea on a kernel. Templates are programs: take them from where you would take code.

    Returns
    -------
    KernelSource
        The text and the plan.

    Raises
    ------
    UnsupportedSpec
        The text would have more than MOST_BYTES (256,000) bytes.
    FileError
        A template of ``templates``, or of an algorithm from elsewhere, fails (file and line are named), or the folder
        has none of a known name.
    ArgumentTypeError
        ``plan`` is no KernelPlan.
    """
    if not isinstance(plan, KernelPlan):
        raise ArgumentTypeError("render takes a KernelPlan", argument="plan", value=type(plan).__name__,
                                hint="warpconv.plan_layer(shape) makes one")
    overlay = Overlay.of(templates)
    try:
        text = _text(plan, overlay)
    except Exception as error:
        ours = overlay is None and beside(plan.spec.algorithm) is None
        if ours or isinstance(error, WarpconvError):
            raise
        raise failure(error, plan.templates[0]) from error
    if len(text) > MOST_BYTES:
        raise UnsupportedSpec(plan.spec, f"its text has {len(text)} bytes (at most {MOST_BYTES})",
                              hint="other plan values make it shorter; algorithm='direct' keeps its loops")
    return KernelSource(plan=plan, text=text)


def _text(plan: KernelPlan, overlay: Overlay | None) -> str:
    made = environment() if overlay is None else _laid_over(overlay)
    written = plan.forward or plan      # whose kernels the text has
    context = {"plan": plan, "spec": written.product or written.spec, "options": written.options,
               "numbers": written.numbers, "arguments": written.program.arguments,
               "banner": banner_lines(plan, overlay)}
    return tidy("\n".join(made.get_template(name).render(context) for name in plan.templates))


@functools.lru_cache(maxsize=1)
def environment() -> Any:
    """The strict Jinja environment that every template is rendered in."""
    import jinja2  # imported late: a pack is served without it

    def load(name: str) -> tuple[str, str, None] | None:
        source = find(name)
        return None if source is None else (_whole_lines(source), FILENAME + name, None)

    made = jinja2.Environment(loader=jinja2.FunctionLoader(load), undefined=jinja2.StrictUndefined, trim_blocks=True,
                              lstrip_blocks=True, keep_trailing_newline=True, autoescape=False)
    made.filters["indent_code"] = _indent_code
    made.tests["adding"] = _adding
    return made


@functools.lru_cache(maxsize=4)
def _laid_over(overlay: Overlay) -> Any:
    """The same environment with an overlay's templates; nothing compiled is kept on disk."""
    import jinja2

    def load(name: str) -> tuple[str, str, None] | None:
        source = overlay.find(name)
        return None if source is None else (_whole_lines(source), FILENAME + name, None)

    return environment().overlay(loader=jinja2.FunctionLoader(load), bytecode_cache=None)


def _whole_lines(source: str) -> str:
    """A call that ends its line with ``-}}`` takes the line's end with it, as a block does, and nothing of the next."""
    return source.replace("-}}\n", "}}{#\n+#}")


def _adding(epilogue: tuple[Epilogue, ...], argument: str) -> bool:
    """Whether an epilogue adds what comes in an argument of its own: the bias, the residual."""
    return any(step.value == argument for step in epilogue)


def _indent_code(text: str, n: int) -> str:
    """As Jinja's indent, the first line too, but lines of the preprocessor stay at the left, as everywhere else."""
    return "".join(line if line[0] in "#\n" else " " * n + line for line in text.splitlines(keepends=True))


@functools.cache
def generator_digest(algorithm: str = "") -> str:
    """blake2b over what makes the text of an algorithm's kernels, or of any algorithm's where none is named: equal
    digests emit equal text for equal plans. An edit in the room of another algorithm leaves an algorithm's as it is."""
    others = frozenset() if not algorithm else _rooms() - {_room(algorithm)}
    digest = hashlib.blake2b(digest_size=16)
    for path, data in _sources():
        if not others.intersection(path.split("/")[:-1]):
            digest.update(f"{path}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def forget_sources() -> None:
    """After the registry has changed: there are other sources, maybe by the same names."""
    generator_digest.cache_clear()
    _laid_over.cache_clear()
    if environment.cache_info().currsize:
        environment().cache.clear()


def _rooms() -> frozenset[str]:
    """The folders in codegen/algorithms and in templates that belong to algorithms; what is in others, all share."""
    from .registry import ALGORITHMS, GRADIENTS, VOLUMES
    return frozenset(_room(name) for name in (*ALGORITHMS, *GRADIENTS, *VOLUMES))


def _room(algorithm: str) -> str:
    """The folder of an algorithm; its planner's package, where it came to the registry from elsewhere."""
    from .registry import algorithm as algorithm_row
    module = algorithm_row(algorithm).plan.__module__
    within = module.removeprefix(_ALGORITHMS)
    return within.split(".")[0] if within != module else package_of(module) or module


def _sources() -> list[tuple[str, bytes]]:
    """The templates and the generator's code, by path, with what came to the registry from elsewhere."""
    from .registry import ALGORITHMS, GRADIENTS, VOLUMES
    rows = {**ALGORITHMS, **GRADIENTS, **VOLUMES}
    found = [file for package in sorted(("warpconv.codegen", PACKAGE)) for file in _package_files(package)]
    others = {row.plan.__module__ for row in rows.values() if not row.plan.__module__.startswith(_ALGORITHMS)}
    found += [file for module in sorted(others) for file in _module_files(module)]
    for name in sorted(rows):
        if (folder := beside(name)) is not None:
            found += sorted(_files(folder, f"{_room(name)}/templates/"))
    return found


@functools.cache
def _package_files(package: str) -> tuple[tuple[str, bytes], ...]:
    return tuple(sorted(_files(resources.files(package), f"{package}/")))


def _module_files(module: str) -> tuple[tuple[str, bytes], ...]:
    """Those of a module's package; of one that stands alone, its own."""
    package = package_of(module)
    if package:
        return _package_files(package)
    file = Path(str(sys.modules[module].__file__))
    return ((f"{module}/{file.name}", file.read_bytes()),)


def _files(folder: Any, prefix: str) -> list[tuple[str, bytes]]:
    found = []
    for item in folder.iterdir():
        if item.is_dir():
            found += _files(item, f"{prefix}{item.name}/")
        elif item.name.endswith((".py", ".jinja")):
            found.append((prefix + item.name, item.read_bytes()))
    return found
