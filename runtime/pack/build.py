"""Building packs: layers and architectures -> plans -> kernels, compiled in parallel, put into a pack."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warpconv.codegen.errors import WarpconvError
from warpconv.codegen.hardware import Arch
from warpconv.codegen.render import generator_digest
from warpconv.codegen.serialise import encode
from warpconv.codegen.version import VERSION
from warpconv.runtime import env, paths
from warpconv.runtime.build.cache import DiskCache
from warpconv.runtime.build.compilers import Compiled
from warpconv.runtime.build.parallel import as_done, workers_of
from warpconv.runtime.build.pipeline import CUBIN, PTX, SOURCE, BuiltKernel, CudaTarget, build, cache_key
from warpconv.runtime.layers import NamedLayer

from .format import FORMAT, SCHEMA, file_record
from .nodes import check_holds_arrays, node_meta, with_arrays
from .tasks import BUILT, FAILED, UP_TO_DATE, Row, Task, tasks_of
from .write import Existing, FolderWriter, Writer, ZipWriter, existing, named_zip, writing

CHECKPOINT_SECONDS = 2.0
FEW_SPILLED = 64        # bytes of a thread: an estimate of registers that is a few short costs little

@dataclass(frozen=True, kw_only=True)
class PackReport:
    """What a build did; rows in the order of the layers, then of the architectures."""

    path: Path
    rows: tuple[Row, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether nothing failed. A layer that the asked-for algorithm does not serve is declined, not failed."""
        return not any(row.status == FAILED for row in self.rows)

    def count(self, status: str) -> int:
        """Rows of that status."""
        return sum(row.status == status for row in self.rows)


def build_pack(layers: Sequence[NamedLayer], output: str | os.PathLike[str], archs: Sequence[Arch | str], *,
               ptx: bool = False, jobs: int | None = None, allow_spills: bool = False, force: bool = False,
               weights: bool = False, progress: Callable[[Row], None] | None = None) -> PackReport:
    """Compile every layer for every architecture into a pack.

    What the pack has up to date is not compiled again, and kernels of other layers stay in it; a layer of the same name
    and architecture is replaced. A layer that does not compile is a row that failed; the others are built.

    Parameters
    ----------
    layers : sequence of NamedLayer
        As a layers file or a model gives them (read_model, layers_of). Those that are alike are planned once.
    output : path
        A directory, or a zip if it ends in .zip.
    archs : sequence of Arch or str
        Written like sm_90, or sm_90+PTX to have its PTX too.
    ptx : bool
        PTX for all of ``archs``.
    jobs : int, optional
        Compilers at the same time, WARPCONV_COMPILE_JOBS (else the usable CPUs) if None.
    allow_spills : bool
        Keep kernels that spill many registers, more than 64 bytes of a thread's, though their plan promises not to;
        else their row has failed. What is spilled stands in each row.
    force : bool
        Overwrite a pack whose manifest is damaged.
    weights : bool
        Keep the filters and biases that a model holds, with what is folded into them, for Pack.conv.
    progress : callable, optional
        Called with each Row in this thread as it is done.

    Returns
    -------
    PackReport
        What was done; rows in the order of the layers, then of the architectures.

    Raises
    ------
    ArgumentError
        Layers, archs or plan values that cannot be.
    FileError
        The pack cannot be written, what stands there is no pack, or a model's weights cannot be read.
    PackError
        It is of another schema, or its manifest is damaged and not to be overwritten.
    """
    start = time.perf_counter()
    settings = replace(env.settings(), fail_on_spills=False)
    output = paths.absolute(output)
    if weights:
        check_holds_arrays(layers)
    tasks = tasks_of(layers, archs, ptx, settings)
    jobs = workers_of(jobs, "jobs")
    with writing(output):
        had = existing(output, force)
        builder = _Builder(tasks, had, allow_spills, progress or _quiet, weights)
        builder.run(lambda: _writer(output, had), settings, jobs)
    return PackReport(path=output, rows=tuple(task.row for task in tasks), seconds=time.perf_counter() - start)


class _Builder:
    """One run of build_pack: the tasks, what the pack had, and what it gets."""

    def __init__(self, tasks: list[Task], had: Existing, allow_spills: bool, progress: Callable[[Row], None],
                 weights: bool = False):
        self.tasks = tasks
        self.weights = weights
        self.had_nodes = {name: dict(meta) for name, meta in had.nodes.items()}
        self.had_arrays = frozenset(had.arrays)
        self.nodes: dict[str, Any] = {}
        self.intact = had.intact
        self.had = {name: record.meta for name, (record, _) in had.kernels.items()}
        self.allow_spills = allow_spills
        self.progress = progress

    def run(self, open_writer: Callable[[], Writer], settings: env.Settings, jobs: int) -> None:
        for task in self.tasks:
            if task.row is None:
                self._reuse(task)
            if task.row is not None:
                self.progress(task.row)
        missing = [task for task in self.tasks if task.row is None]
        writers: list[Writer] = []

        def writer_of() -> Writer:      # opened when there is something to write: else the pack may be read-only
            writers[:] = writers or [open_writer()]
            return writers[0]

        self._keep_nodes(writer_of)
        document = self.document()
        same = document["kernels"] == self.had and document.get("nodes", {}) == self.had_nodes
        if not missing and self.intact and same and not writers:
            return
        writer = writer_of()
        try:
            self._compile(missing, writer, settings, jobs)
        finally:                        # also when interrupted: what is built is in the pack
            document = self.document()
            if document["kernels"] or self.had or not self.intact:
                writer.commit(document)
            else:
                writer.abandon()

    def document(self) -> dict[str, Any]:
        """The manifest: what the pack had, with the tasks' layers moved to their kernels, in the tasks' order."""
        kernels = {name: {**meta, "layers": dict(meta["layers"])} for name, meta in self.had.items()}
        done = [task for task in self.tasks if task.meta is not None]
        failed = {(task.layer.name, str(task.arch)) for task in self.tasks if task.meta is None}
        for meta in kernels.values():
            built = meta["report"]["arch"]
            for task in done:
                if task.replaces(built) and (task.layer.name, built) not in failed:
                    meta["layers"].pop(task.layer.name, None)
        for task in done:
            mine = kernels.setdefault(task.row.kernel, {**task.meta, "layers": {}})
            mine["layers"][task.layer.name] = _layer_meta(task)
        kernels = {name: meta for name, meta in kernels.items() if meta["layers"]}
        made = {"format": FORMAT, "schema": SCHEMA,
                "generator": {"version": VERSION, "digest": generator_digest()}, "kernels": kernels}
        listed = {name for meta in kernels.values() for name in meta["layers"]}
        built = {task.layer.name for task in done}
        nodes = {name: meta for name, meta in self.had_nodes.items() if name in listed - built}
        nodes.update((name, meta) for name, meta in self.nodes.items() if name in built)
        return {**made, "nodes": nodes} if nodes else made

    def _keep_nodes(self, writer_of: Callable[[], Writer]) -> None:
        """What a model says of its layers, and their arrays if they are asked for: one layer's at a time."""
        def store(sha256: str, data: bytes) -> None:
            if sha256 not in self.had_arrays:
                writer_of().add_array(sha256, data)

        for layer in {task.layer.name: task.layer for task in self.tasks if task.plan is not None}.values():
            meta = node_meta(layer)
            if meta is not None:
                self.nodes[layer.name] = with_arrays(layer, meta, store) if self.weights else meta

    def _reuse(self, task: Task) -> None:
        """Fill the row of a task whose kernel the pack has already."""
        kernel = next((key for key in task.keys if key in self.had), None)
        if kernel is None:
            return
        meta = self.had[kernel]
        compiled = Compiled.from_meta({**meta["report"], "seconds": 0.0}, b"")
        task.row = self._judged(task, _row(task, UP_TO_DATE, kernel, compiled, meta["files"][CUBIN]["size"]))
        task.meta = meta if task.row.status == UP_TO_DATE else None

    def _compile(self, tasks: list[Task], writer: Writer, settings: env.Settings, jobs: int) -> None:
        groups: dict[str, list[Task]] = {}         # layers that share a kernel compile it once
        for task in tasks:
            groups.setdefault(task.keys[0], []).append(task)
        cache = DiskCache(settings.cache_dir, enabled=not settings.disable_cache)
        last = time.monotonic()

        def compiled(group: list[Task]) -> BuiltKernel:
            return build(group[0].plan, ptx=group[0].ptx, cache=cache, settings=settings)

        with contextlib.closing(as_done(compiled, list(groups.values()), jobs)) as finished:
            for group, future in finished:
                self._collect(future, group, writer, settings)
                if time.monotonic() - last > CHECKPOINT_SECONDS and (document := self.document())["kernels"]:
                    writer.checkpoint(document)
                    last = time.monotonic()

    def _collect(self, future: Future, group: list[Task], writer: Writer, settings: env.Settings) -> None:
        try:
            built: BuiltKernel = future.result()
        except WarpconvError as error:
            for task in group:
                self._fail(task, str(error))
            return
        files = _files(built)
        kernel = cache_key(group[0].plan, CudaTarget(built.compiled.compiler, group[0].ptx), settings).directory
        rows = [self._judged(task, _row(task, BUILT, kernel, built.compiled, len(built.compiled.cubin)))
                for task in group]
        if any(row.status == BUILT for row in rows):
            writer.add(kernel, files)       # before a task has its record: no manifest lists what is not stored
        meta = _meta(built, files)
        for task, row in zip(group, rows):
            task.row, task.meta = row, meta if row.status == BUILT else None
            self.progress(row)

    def _judged(self, task: Task, row: Row) -> Row:
        """The row, failed where the kernel uses much local memory though its plan promises registers."""
        if self.allow_spills or not task.plan.cost.no_spills or (row.stack or 0) <= FEW_SPILLED:
            return row
        return replace(row, status=FAILED, kernel=None, reason=(
            f"the plan promises registers and the kernel uses local memory ({row.stack} bytes of stack, "
            f"{row.spills} bytes spilled); allow_spills=True, --allow-spills keeps it"))

    def _fail(self, task: Task, reason: str) -> None:
        task.row = Row(name=task.layer.name, algorithm=task.plan.spec.algorithm, arch=str(task.arch), status=FAILED,
                       reason=reason)
        self.progress(task.row)


def _writer(output: Path, had: Existing) -> Writer:
    if not named_zip(output):
        return FolderWriter(output, had.listed, had.arrays)
    return ZipWriter(output, {name: files for name, (_, files) in had.kernels.items()}, had.arrays)


def _files(built: BuiltKernel) -> dict[str, bytes]:
    files = {SOURCE: built.source.encode(), CUBIN: built.compiled.cubin}
    if built.compiled.ptx is not None:
        files[PTX] = built.compiled.ptx.encode()
    return files


def _meta(built: BuiltKernel, files: Mapping[str, bytes]) -> dict[str, Any]:
    """The manifest's record of a kernel; nothing in it depends on when or how fast it was compiled."""
    report = {name: value for name, value in built.compiled.to_meta().items() if name != "seconds"}
    report["log"] = "".join(line + "\n" for line in built.compiled.log.splitlines() if "Compile time" not in line)
    return {"files": {name: file_record(data) for name, data in files.items()}, "spec": encode(built.spec),
            "settings": encode(dict(built.settings)), "program": encode(built.program), "report": report}


def _layer_meta(task: Task) -> dict[str, Any]:
    return {"shape": encode(task.layer.shape), "estimate": task.estimate}


def _row(task: Task, status: str, kernel: str, compiled: Compiled, size: int) -> Row:
    entries = compiled.entries
    dynamic = max((launch.shared_bytes for launch in task.plan.program.launches), default=0)
    return Row(name=task.layer.name, algorithm=task.plan.spec.algorithm, arch=str(task.arch), status=status,
               registers=max((entry.registers for entry in entries), default=None),
               spills=sum(entry.spill_stores + entry.spill_loads for entry in entries),
               stack=sum(entry.stack_bytes for entry in entries),
               shared=max((entry.shared_bytes for entry in entries), default=0) + dynamic, bytes=size, kernel=kernel)


def _quiet(row: Row) -> None:
    pass
