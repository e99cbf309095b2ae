"""KernelPlan -> BuiltKernel: source and binary, from the disk cache, else compiled: one way and key for all devices.

What differs is the Target: a CUDA compiler here, the C++ compiler of the CPU device in runtime/devices/cpu/target.py.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from warpconv.codegen.banner import layer_flags, overlay_flags, setting_flags
from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import FileError, KernelNotBuilt, ToolNotFound, WarpconvError
from warpconv.codegen.plan import KernelPlan, Program
from warpconv.codegen.serialise import decode, encode, plan_identity
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime import env

from . import compilers
from .cache import CacheKey, DiskCache, Entry
from .compilers import Compiled, CompilerKind
from .templates import laid_over, source_of

_log = logging.getLogger("warpconv.build")

SOURCE, CUBIN, PTX = "kernel.cu", "kernel.cubin", "kernel.ptx"
MOST_FEWER = 5  # times that a kernel which spills is compiled anew, with fewer blocks on a multiprocessor or leaner
FORM = "2"      # of what an entry notes: one of another form, which this version cannot read, is another entry


@dataclass(frozen=True, kw_only=True)
class Text:
    """A kernel's text to be compiled, and what names it: ``identity`` is known without rendering."""

    spec: KernelSpec
    program: Program
    settings: Mapping[str, Any]
    identity: Mapping[str, str]
    render: Callable[[], str]
    command: Callable[[], str] | None = None    # that builds it into a pack
    no_spills: bool = False         # promised by its plan
    plan: KernelPlan | Callable[[], KernelPlan] | None = None       # a plan, or what makes it when it is looked at

    @classmethod
    def of(cls, plan: KernelPlan, settings: env.Settings | None = None) -> Text:
        """The text of a plan, by the templates that the settings lay over."""
        overlay = laid_over(settings)
        return cls(spec=plan.spec, program=plan.program, settings=plan.settings(),
                   identity=plan_identity(plan, overlay), no_spills=plan.cost.no_spills, plan=plan,
                   render=lambda: source_of(plan, overlay).text,
                   command=lambda: build_command(plan) + overlay_flags(overlay))

    @classmethod
    def noted(cls, note: Mapping[str, Any]) -> Text:
        """The inverse of to_note: a text that is found, but not made. Raises ArgumentError, LookupError, TypeError or
        ValueError where ``note`` is not of its form."""
        identity = note["identity"]
        spec, program = (decode(kind, json.loads(identity[name])) for kind, name in ((KernelSpec, "spec"),
                                                                                    (Program, "program")))

        def render() -> str:
            raise KernelNotBuilt("the kernel that was noted is no longer in the cache", spec=spec)

        return cls(spec=spec, program=program, settings=json.loads(identity["plan"]), identity=identity, render=render,
                   no_spills=note["no_spills"])

    def with_fewer_blocks(self, settings: env.Settings, leaner: bool = False) -> Text | None:
        """The text of the same kernel with fewer blocks beside each other, if that leaves more registers, else with
        leaner plan values (with these first where ``leaner`` says so), if there are any."""
        from warpconv.codegen.resolution import with_fewer_blocks
        plan = self.plan() if callable(self.plan) else self.plan
        fewer = None if plan is None else with_fewer_blocks(plan, leaner)
        return None if fewer is None else Text.of(fewer, settings)

    def to_note(self) -> dict[str, Any]:
        """What finds the text's kernel again, JSON-able."""
        return {"identity": dict(self.identity), "no_spills": self.no_spills}

    @classmethod
    def given(cls, spec: KernelSpec, program: Program, source: str) -> Text:
        """A text that is there already (a pack's, an edited one)."""
        return cls(spec=spec, program=program, settings={}, render=lambda: source,
                   identity={"text": hashlib.sha256(source.encode()).hexdigest()})


class Target(Protocol):
    """What makes texts into binaries for one kind of device."""

    def label(self, spec: KernelSpec) -> str:
        """The end of a cache entry's readable name."""

    def fields(self, spec: KernelSpec, settings: env.Settings) -> Mapping[str, str]:
        """All that decides the binary besides the text; starts no process."""

    def compile(self, text: Text, source: str, folder: Path, cache: DiskCache,
                settings: env.Settings) -> Mapping[str, Any]:
        """Put the binary into the folder; what to note of it, as JSON takes it. Raises CompileError, ToolNotFound."""

    def compiled(self, entry: Entry) -> Compiled | None:
        """A CUDA compiler's part of an entry; None where the entry's folder is all there is."""


@dataclass(frozen=True)
class CudaTarget:
    """A cubin for the spec's architecture, by one of the CUDA compilers; with its PTX where that is wanted."""

    kind: CompilerKind
    ptx: bool = False

    def label(self, spec: KernelSpec) -> str:
        return str(spec.arch)

    def fields(self, spec: KernelSpec, settings: env.Settings) -> Mapping[str, str]:
        return {"arch": str(spec.arch), "compiler": self.kind.value, "ptx": str(self.ptx).lower(),
                "options": json.dumps(compilers.options_for(self.kind, str(spec.arch), settings))}

    def compile(self, text: Text, source: str, folder: Path, cache: DiskCache,
                settings: env.Settings) -> Mapping[str, Any]:
        compiled = compilers.compile_source(source, arch=str(text.spec.arch), kind=self.kind, ptx=self.ptx,
                                            name=f"{text.spec.name}.cu", settings=settings)
        (folder / CUBIN).write_bytes(compiled.cubin)
        if compiled.ptx is not None:
            (folder / PTX).write_text(compiled.ptx, encoding="utf-8")
        _log.info("compiled %s for %s with %s in %.2f s", text.spec.name, text.spec.arch, self.kind.value,
                  compiled.seconds)
        return compiled.to_meta()

    def compiled(self, entry: Entry) -> Compiled | None:
        ptx = entry.read(PTX).decode() if PTX in entry.files else None
        return Compiled.from_meta(entry.meta, entry.read(CUBIN), ptx)


@dataclass(frozen=True, kw_only=True)
class BuiltKernel:
    """Everything needed to load and run a kernel: no planner, template or compiler from here on. ``path``: the folder
    of its files; what a compiler for GPUs made of it is ``compiled``. ``plan`` is the one that was asked for, or, where
    its kernel spilled, the one with fewer blocks on a multiprocessor that was built in its place."""

    spec: KernelSpec
    settings: Mapping[str, Any]
    program: Program
    source: str
    compiled: Compiled | None
    path: Path | None = None
    entry: Entry | None = None      # of the cache, whose bytes were verified
    plan: KernelPlan | Callable[[], KernelPlan] | None = None

    def to_meta(self) -> dict[str, Any]:
        """All but the files, JSON-able."""
        return {**(self.compiled.to_meta() if self.compiled else {}), **_description(self)}

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any], *, source: str, cubin: bytes, ptx: str | None = None,
                  path: Path | None = None) -> BuiltKernel:
        """The inverse of to_meta. Raises ArgumentError or KeyError where ``meta`` is not of this form."""
        return cls(spec=decode(KernelSpec, meta["spec"]), settings=meta["settings"],
                   program=decode(Program, meta["program"]), source=source, path=path,
                   compiled=Compiled.from_meta(meta, cubin, ptx))


def build(plan: KernelPlan | Text, target: Target | None = None, *, kind: CompilerKind | None = None, ptx: bool = False,
          cache: DiskCache | None = None, settings: env.Settings | None = None) -> BuiltKernel:
    """The compiled kernel of a plan, or of a text, for a target (None: the CUDA compiler ``kind``, or that of the
    settings, with ``ptx`` or without). A hit in the disk cache renders nothing and starts no process.

    Where compilers spill, the kernel is planned and compiled anew, up to five times, with fewer blocks beside each
    other on a multiprocessor (plan value ``min_blocks``), and so more registers for a thread, or with a number of them
    where the compiler was told none, at last with leaner plan values where its algorithm has some; the first that does
    not spill is kept in the place of what was asked for.

    Raises KernelNotBuilt where compiling is off and it is in no cache, ToolNotFound where there is no compiler,
    CompileError where the source is refused or, with WARPCONV_FAIL_ON_SPILLS, spills though its plan promises not to.
    """
    settings = settings or env.settings()
    cache = cache or DiskCache(enabled=not settings.disable_cache)
    text = plan if isinstance(plan, Text) else Text.of(plan, settings)
    for candidate in [target] if target is not None else _cuda_targets(kind, ptx, settings):
        entry = cache.find(_key(text, candidate, settings))
        if entry is not None and (built := _from_entry(text, candidate, entry)) is not None:
            return _checked(built, text, settings)
    if settings.disable_jit:
        raise KernelNotBuilt(f"compiling is off (WARPCONV_DISABLE_JIT) and this kernel is in no cache or pack: "
                             f"{text.spec.name} for {text.spec.arch}", spec=text.spec,
                             command=text.command() if text.command else None)
    chosen = target or CudaTarget(compilers.choose(kind, settings), ptx)

    def compiled(made: Text, folder: Path) -> Mapping[str, Any]:
        source = made.render()
        (folder / SOURCE).write_text(source, encoding="utf-8")
        return {**chosen.compile(made, source, folder, cache, settings), **_description(made)}

    def made(folder: Path) -> Mapping[str, Any]:
        meta, fewer = compiled(text, folder), text
        if not _spills(meta):
            return meta
        for left in reversed(range(MOST_FEWER)):
            if (fewer := fewer.with_fewer_blocks(settings, leaner=not left)) is None:
                break
            if not _spills(meta := compiled(fewer, folder)):
                _log.info("%s for %s spills and is built with %s", text.spec.name, text.spec.arch, ", ".join(
                    f"{name} = {value}" for name, value in fewer.settings.items() if text.settings.get(name) != value))
                return meta
        return compiled(text, folder)           # no better with fewer blocks: as it was asked for

    key = _key(text, chosen, settings)
    for place in (cache, cache, DiskCache(enabled=False)):
        entry = place.fetch(key, made)
        if (built := _from_entry(text, chosen, entry)) is not None:
            return _checked(built, text, settings)
        if place is cache:      # somebody cleared it, and files went before they were sealed: once more
            with contextlib.suppress(FileError):
                cache.discard(key)
    raise WarpconvError("a kernel that was just built cannot be read back", argument="cache", value=str(entry.path),
                        hint="remove it with: warpconv cache clear")


def cache_key(plan: KernelPlan | Text, target: Target, settings: env.Settings) -> CacheKey:
    """The disk key: all that decides the binary, known without rendering or starting anything."""
    return _key(plan if isinstance(plan, Text) else Text.of(plan, settings), target, settings)


def _key(text: Text, target: Target, settings: env.Settings) -> CacheKey:
    fields = {**text.identity, **target.fields(text.spec, settings), "form": FORM}
    return CacheKey(name=f"{text.spec.name}-{target.label(text.spec)}", fields=tuple(sorted(fields.items())))


def _description(made: Text | BuiltKernel) -> dict[str, Any]:
    return {"spec": encode(made.spec), "settings": encode(dict(made.settings)), "program": encode(made.program)}


def build_command(plan: KernelPlan) -> str:
    """The command line that builds a plan into a pack."""
    return f"warpconv build {layer_flags(plan)}{setting_flags(plan)} --arch {plan.spec.arch} -o PACK"


def _cuda_targets(kind: CompilerKind | None, ptx: bool, settings: env.Settings) -> Sequence[Target]:
    """Where to look: the compiler that would be used, or, where none is there and none was asked for, any."""
    try:
        kinds = [compilers.choose(kind, settings)]
    except ToolNotFound:
        asked = settings.compiler is not env.CompilerChoice.AUTO
        kinds = [kind] if kind is not None else [CompilerKind(settings.compiler.value)] if asked else list(CompilerKind)
    return [CudaTarget(one, ptx) for one in kinds]


def _spills(meta: Mapping[str, Any]) -> bool:
    """Whether a CUDA compiler reports it of a kernel."""
    return any(entry["spill_stores"] or entry["spill_loads"] for entry in meta.get("entries", ()))


def _from_entry(text: Text, target: Target, entry: Entry) -> BuiltKernel | None:
    """The entry's kernel; None if it is not of the expected form, which is a miss like any other defect."""
    try:
        settings, program, plan = entry.meta["settings"], text.program, text.plan
        if text.settings and settings != encode(dict(text.settings)):       # with fewer blocks
            program, plan = decode(Program, entry.meta["program"]), functools.partial(_planned, text.spec, settings)
        return BuiltKernel(spec=text.spec, settings=settings, program=program, path=entry.path, plan=plan,
                           entry=entry, source=entry.read(SOURCE).decode(), compiled=target.compiled(entry))
    except (WarpconvError, KeyError, TypeError, ValueError) as error:
        _log.info("cache entry %s is not usable: %s", entry.key, error)
        return None


def _planned(spec: KernelSpec, settings: Mapping[str, Any]) -> KernelPlan:
    from warpconv.codegen.resolution import plan
    return plan(spec, settings)


def _checked(built: BuiltKernel, text: Text, settings: env.Settings) -> BuiltKernel:
    if settings.fail_on_spills and text.no_spills and built.compiled is not None:
        compilers.check_no_spills(built.compiled, built.source)
    return built
