"""KernelPlan -> BuiltKernel: source and cubin, from the memory of a pack or the disk cache, else compiled."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

from warpconv.codegen.banner import layer_flags, setting_flags
from warpconv.codegen.errors import KernelNotBuilt, ToolNotFound, WarpconvError
from warpconv.codegen.plan import KernelPlan, Program
from warpconv.codegen.serialise import decode, encode, plan_identity
from warpconv.codegen.spec import KernelSpec
from . import compilers
from warpconv.runtime import env
from .cache import CacheKey, DiskCache, Entry
from .compilers import Compiled, CompilerKind

_log = logging.getLogger("warpconv.build")

SOURCE, CUBIN, PTX = "kernel.cu", "kernel.cubin", "kernel.ptx"


@dataclass(frozen=True, kw_only=True)
class BuiltKernel:
    """Everything needed to load and run a kernel: no planner, template or compiler from here on."""

    spec: KernelSpec
    settings: Mapping[str, Any]
    program: Program
    source: str
    compiled: Compiled
    path: Path | None = None

    def to_meta(self) -> dict[str, Any]:
        """All but the files, JSON-able."""
        return {**self.compiled.to_meta(), "spec": encode(self.spec), "settings": encode(dict(self.settings)),
                "program": encode(self.program)}

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any], *, source: str, cubin: bytes, ptx: str | None = None,
                  path: Path | None = None) -> BuiltKernel:
        """The inverse of to_meta. Raises ArgumentError or KeyError where ``meta`` is not of this form."""
        return cls(spec=decode(KernelSpec, meta["spec"]), settings=meta["settings"],
                   program=decode(Program, meta["program"]), source=source, path=path,
                   compiled=Compiled.from_meta(meta, cubin, ptx))


def build(plan: KernelPlan, *, kind: CompilerKind | None = None, ptx: bool = False,
          cache: DiskCache | None = None, settings: env.Settings | None = None) -> BuiltKernel:
    """The compiled kernel of a plan. A hit in the disk cache renders nothing and starts no process.

    Raises KernelNotBuilt where compiling is off and it is in no cache, ToolNotFound where there is no compiler,
    CompileError where the source is refused or, with WARPCONV_FAIL_ON_SPILLS, spills though its plan promises not to.
    """
    settings = settings or env.settings()
    cache = cache or DiskCache(enabled=not settings.disable_cache)
    kinds = _kinds(kind, settings)
    for candidate in kinds:
        entry = cache.find(cache_key(plan, candidate, ptx, settings))
        if entry is not None and (built := _from_entry(entry)) is not None:
            return _checked(built, plan, settings)
    if settings.disable_jit:
        raise KernelNotBuilt(f"compiling is off (WARPCONV_DISABLE_JIT) and this kernel is in no cache or pack: "
                             f"{plan.spec.name} for {plan.spec.arch}", spec=plan.spec, command=build_command(plan))
    chosen = compilers.choose(kind, settings)
    entry = cache.fetch(cache_key(plan, chosen, ptx, settings),
                        lambda folder: _compile(plan, chosen, ptx, folder, settings))
    built = _from_entry(entry)
    if built is None:
        raise WarpconvError("a kernel that was just built cannot be read back", argument="cache", value=str(entry.path),
                            hint="remove it with: warpconv cache clear")
    return _checked(built, plan, settings)


def cache_key(plan: KernelPlan, kind: CompilerKind, ptx: bool, settings: env.Settings) -> CacheKey:
    """The disk key: all that decides the cubin, known without rendering or starting anything."""
    fields = {**plan_identity(plan), "arch": str(plan.spec.arch), "compiler": kind.value, "ptx": str(ptx).lower(),
              "options": json.dumps(compilers.options_for(kind, str(plan.spec.arch), settings))}
    return CacheKey(name=f"{plan.spec.name}-{plan.spec.arch}", fields=tuple(sorted(fields.items())))


def build_command(plan: KernelPlan) -> str:
    """The command line that builds a plan into a pack."""
    return f"warpconv build {layer_flags(plan)}{setting_flags(plan)} --arch {plan.spec.arch} -o PACK"


def _kinds(kind: CompilerKind | None, settings: env.Settings) -> list[CompilerKind]:
    """Where to look: the compiler that would be used, or, where none is there and none was asked for, any."""
    try:
        return [compilers.choose(kind, settings)]
    except ToolNotFound:
        if kind is not None:
            return [kind]
        asked = settings.compiler is not env.CompilerChoice.AUTO
        return [CompilerKind(settings.compiler.value)] if asked else list(CompilerKind)


def _compile(plan: KernelPlan, kind: CompilerKind, ptx: bool, folder: Path, settings: env.Settings) -> dict[str, Any]:
    from .templates import rendered
    source = rendered(plan)
    compiled = compilers.compile_source(source, arch=str(plan.spec.arch), kind=kind, ptx=ptx,
                                        name=f"{plan.spec.name}.cu", settings=settings)
    (folder / SOURCE).write_text(source, encoding="utf-8")
    (folder / CUBIN).write_bytes(compiled.cubin)
    if compiled.ptx is not None:
        (folder / PTX).write_text(compiled.ptx, encoding="utf-8")
    _log.info("compiled %s for %s with %s in %.2f s", plan.spec.name, plan.spec.arch, kind.value, compiled.seconds)
    return BuiltKernel(spec=plan.spec, settings=plan.settings(), program=plan.program, source=source,
                       compiled=compiled).to_meta()


def _from_entry(entry: Entry) -> BuiltKernel | None:
    """The entry's kernel; None if it is not of the expected form, which is a miss like any other defect."""
    try:
        ptx = entry.read(PTX).decode() if PTX in entry.files else None
        return BuiltKernel.from_meta(entry.meta, source=entry.read(SOURCE).decode(), cubin=entry.read(CUBIN), ptx=ptx,
                                     path=entry.path)
    except (WarpconvError, KeyError, TypeError, ValueError) as error:
        _log.info("cache entry %s is not usable: %s", entry.key, error)
        return None


def _checked(built: BuiltKernel, plan: KernelPlan, settings: env.Settings) -> BuiltKernel:
    if settings.fail_on_spills and plan.cost.no_spills:
        compilers.check_no_spills(built.compiled, built.source)
    return built
