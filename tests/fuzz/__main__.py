"""``python -m tests.fuzz --seconds N --seed S [--device cuda] [--record FILE]``: drawn calls, files and processes.

Case ``I`` of a seed is always the same. A case is right, refused (an error of warpconv's own where one may be), wrong
(a value, a file) or raw (any other exception); a drawn layer is called several times, and calls are what is counted.
What fails is made smaller and told with the command that plays it again; ``--record`` keeps counts, so that a run goes
on where the last one ended. Exit status 1 if anything failed.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from warpconv.runtime import env
from warpconv.runtime.call import conv

from . import images, inputs, layers, line, lists, stopped, volume
from .choices import Choices, smaller
from .world import World

Play = Callable[[Choices, World], str]
# kind -> what plays it, how often beside the others (0: only where it is named), whether it is for the CPU device alone
KINDS: dict[str, tuple[Play, int, bool]] = {
    "conv2d": (layers.values, 40, False), "gradient": (layers.gradient, 10, False),
    "arguments": (layers.arguments, 20, False), "scipy": (images.values, 20, False),
    "volume": (volume.values, 12, False), "line": (line.values, 16, False),
    "lists": (lists.values, 8, False),
    "opencv": (images.opencv, 0, False), "skimage": (images.skimage, 0, False),
    "files": (inputs.files, 5, True), "commands": (inputs.commands, 4, True), "stopped": (stopped.processes, 1, True)}
TRIES = 60              # that making a case smaller may take
FORGOTTEN_AFTER = 200   # cases, so that loaded kernels do not fill the memory


def outcome(play: Play, choose: Choices, world: World) -> tuple[str, str]:
    """How a case ends, and what was seen."""
    world.tell("")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return play(choose, world), ""
    except AssertionError as error:
        return "wrong", str(error)[:1500]
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "raw", f"{type(error).__name__} in {Path(where.filename).name}:{where.lineno}: {str(error)[:800]}"


def kind_of(choose: Choices, world: World, only: Sequence[str]) -> str:
    kinds = [name for name, (_, share, on_cpu) in KINDS.items() if not only or name in only
             for _ in range(share or int(name in only)) if world.device == "cpu" or not on_cpu]
    return choose(kinds)


def shrunk(seed: int, index: int, world: World, name: str, how: str, made: list[int]) -> str:
    """What the smallest case that fails alike says of itself."""
    play = KINDS[name][0]

    def fails(choices: list[int]) -> bool:
        return outcome(play, Choices(None, choices), world)[0] == how

    best = smaller(made, fails, TRIES if name != "stopped" else 0)
    if outcome(play, Choices(None, best), world)[0] == how:
        return world.told
    return f"{world.told} (not each time)"


def sources(cache: Path) -> set[str]:
    """Digests of the texts that were compiled."""
    return {hashlib.blake2b(path.read_bytes(), digest_size=12).hexdigest() for path in cache.rglob("kernel.cu")}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--cases", type=int, default=None, help="end after so many of this run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, default=None, help="play this one alone")
    parser.add_argument("--first", type=int, default=0, help="the first case, where no record says where to go on")
    parser.add_argument("--step", type=int, default=1, help="every so many: several processes share a seed")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--kind", action="append", choices=tuple(KINDS), default=[])
    parser.add_argument("--record", type=Path, default=None, help="JSON, written anew after every hundred cases")
    given = parser.parse_args(arguments)
    record = {"seed": given.seed, "device": given.device, "next": given.first, "counts": {}, "sources": [],
              "failed": []}
    if given.record is not None and given.record.exists():
        record = json.loads(given.record.read_text(encoding="utf-8"))
        if (record["seed"], record["device"]) != (given.seed, given.device):
            parser.error(f"{given.record} is of seed {record['seed']} on {record['device']}")
    counts = Counter(record["counts"])
    known = set(record["sources"])
    os.environ["COLUMNS"] = "200"
    with tempfile.TemporaryDirectory(prefix="warpconv-fuzz-", ignore_cleanup_errors=True) as folder:
        world, cache = World(given.device, Path(folder)), Path(folder) / "cache"
        with env.scope(cache_dir=cache):
            end, index, done = time.monotonic() + given.seconds, record["next"], 0
            if given.case is not None:
                index, given.cases = given.case, 1
            while time.monotonic() < end and done != given.cases:
                choose = Choices((given.seed, index))
                name = kind_of(choose, world, given.kind)
                drawn = len(choose.made)
                how, seen = outcome(KINDS[name][0], choose, world)
                counts[f"{name} {how}"] += world.tried()
                if how in ("wrong", "raw"):
                    told = world.told
                    small = shrunk(given.seed, index, world, name, how, choose.made[drawn:])
                    world.tried()
                    record["failed"].append({"case": index, "kind": name, "how": how, "seen": seen, "told": told,
                                             "smallest": small})
                    print(f"{how}: {seen}\n  {told}\n  smallest: {small}\n  again: python -m tests.fuzz --seed "
                          f"{given.seed} --case {index} --device {given.device}"
                          + "".join(f" --kind {kind}" for kind in given.kind), flush=True)
                index, done = index + given.step, done + 1
                if done % FORGOTTEN_AFTER == 0 or done == given.cases:
                    conv.clear()
                if given.record is not None and done % 100 == 0:
                    known |= sources(cache)
                    keep(given.record, record, index, counts, known)
        known |= sources(cache)
        if given.record is not None and given.case is None:
            keep(given.record, record, index, counts, known)
    print(f"{done} cases of seed {given.seed} on {given.device}, {sum(counts.values())} calls in all, {len(known)} "
          "distinct sources: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    return int(any(name.endswith((" wrong", " raw")) for name in counts))


def keep(path: Path, record: dict, index: int, counts: Counter, known: set[str]) -> None:
    """Write the record, whole."""
    record.update(next=index, counts=dict(counts), sources=sorted(known))
    aside = path.with_name(f".{path.name}.new")
    aside.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    os.replace(aside, path)


if __name__ == "__main__":
    faulthandler.enable()       # a process that crashes says where
    sys.exit(main())
