"""The CPU device as a target of the pipeline: texts become shared objects by the machine's C++ compiler."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import KernelNotBuilt, WarpconvError
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime import env
from warpconv.runtime.build import compilers, private
from warpconv.runtime.build.cache import CacheKey, DiskCache
from warpconv.runtime.build.entry import Entry

from . import objects
from .program import CpuProgram
from .report import Mode
from .toolchain import Toolchain, find_toolchain

if TYPE_CHECKING:
    from warpconv.runtime.build.pipeline import Text

_log = logging.getLogger("warpconv.build")
_runtimes: dict[str, objects.Runtime] = {}      # by name


@dataclass(frozen=True)
class CpuTarget:
    """A shared object for this machine, quick or counting."""

    mode: Mode = Mode.FAST

    def label(self, spec: KernelSpec) -> str:
        return f"cpu-{self.mode.value}"

    def fields(self, spec: KernelSpec, settings: env.Settings) -> Mapping[str, str]:
        """Raises ToolNotFound."""
        return dict(objects.machine_fields(self.mode, _toolchain(settings)))

    def compile(self, text: Text, source: str, folder: Path, cache: DiskCache,
                settings: env.Settings) -> Mapping[str, Any]:
        toolchain, runtime = _toolchain(settings), self._cached_runtime(cache, settings)
        compilers.dump_source(source, f"{text.spec.name}.cu", settings)
        meta = objects.build(source, entries=text.program.entries, mode=self.mode, directory=folder,
                             runtime=runtime, toolchain=toolchain,
                             header=self._header(source, cache, toolchain))
        # loaded before it is kept: what a wrong compiler made never gets into the cache
        CpuProgram.load(folder, entries=text.program.entries, mode=self.mode, runtime=runtime)
        return meta

    def compiled(self, entry: Entry) -> None:
        return None

    def runtime(self, cache: DiskCache, settings: env.Settings) -> objects.Runtime:
        """What all kernels are linked to, read once in a process. Raises as ``_cached_runtime``."""
        return _runtimes.get(objects.runtime_name(self.mode, _toolchain(settings))) or self._cached_runtime(
            cache, settings)

    def _cached_runtime(self, cache: DiskCache, settings: env.Settings) -> objects.Runtime:
        """The same from the cache, which has it beside the kernels that are put there. Raises KernelNotBuilt where it
        has not and compiling is off; else as a kernel's compilation does."""
        toolchain = _toolchain(settings)
        machine = [field for field in objects.machine_fields(self.mode, toolchain)
                   if field[0] not in ("kernel_flags", "link_flags")]
        key = CacheKey(name=f"cpu-device-{self.mode.value}", fields=tuple(sorted(machine)))
        if settings.disable_jit and cache.find(key) is None:
            raise KernelNotBuilt("compiling is off (WARPCONV_DISABLE_JIT) and the CPU device's own object is in no "
                                 "cache")

        def build(folder: Path) -> Mapping[str, Any]:
            return {"object": objects.runtime_object(folder, self.mode, toolchain).name}

        entry = cache.fetch(key, build)
        made = entry.meta["object"]
        return _runtimes.setdefault(objects.runtime_name(self.mode, toolchain), objects.Runtime(made, entry.read(made)))

    def _header(self, source: str, cache: DiskCache, toolchain: Toolchain) -> Path | None:
        """A folder of this process with the device's compiled header, which is an entry of the cache, too; it is empty
        where it cannot be compiled or while another thread sees to it. None where no disk takes it."""
        if toolchain.family != "gcc":
            return None         # g++ finds it by itself, and does without where it does not fit
        flags = objects.flags_of(source, self.mode, toolchain)
        fields = dict(objects.machine_fields(self.mode, toolchain)) | {"kernel_flags": " ".join(flags)}
        machine = [field for field in sorted(fields.items()) if field[0] not in ("runtime_flags", "link_flags")]
        purpose = "\0".join(value for _, value in machine)
        folder = private.known_directory(purpose)
        if folder is not None:
            return folder

        def build(made: Path) -> Mapping[str, Any]:
            objects.compile_header(made, flags, toolchain)
            return {}

        try:
            folder = private.directory(purpose)
            entry = cache.fetch(CacheKey(name=f"cpu-header-{self.mode.value}", fields=tuple(machine)), build)
            objects.install(folder / objects.COMPILED_HEADER, entry.read(objects.COMPILED_HEADER))
        except (WarpconvError, OSError) as error:
            _log.info("the CPU device's header is read anew for each kernel: %s", error)
        return folder


def _toolchain(settings: env.Settings) -> Toolchain:
    return find_toolchain(None if settings.cxx is None else str(settings.cxx))
