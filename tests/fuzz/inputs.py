"""Files and command lines with faults in them: only exit statuses 0, 1 and 2, and no exception but warpconv's own."""

from __future__ import annotations

import functools
import json
import os
import shutil
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from warpconv.cli import cli

from ..axes import Choose
from .world import World

SMALL = ("--input", "1,1,12,12", "--filter", "1,3,3")
LAYERS = '[[layer]]\nname = "a"\ninput = [1, 2, 9, 9]\nfilter = [2, 3, 3]\npadding = 1\n'
COMMANDS = (("emit", *SMALL), ("explain", *SMALL), ("inspect", *SMALL, "--algorithm", "direct"), ("cache", "list"),
            ("cache", "verify"), ("pack", "list", "PACK"), ("emit", "LAYERS"), ("explain", "LAYERS"), ("env",),
            ("run", "x.npy", "w.npy", "-o", "y.npy", "--device", "cpu"),
            ("build", *SMALL, "--arch", "sm_90", "-o", "made"),
            ("filter", "p.png", "q.png", "--kernel", "box:3", "--device", "cpu"))
WORDS = ("--help", "--json", "--set", "k_tile=8", "--algorithm", "wide", "auto", "--stride", "0", "-1", "2,2",
         "99999999999", "--dtype", "float16", "--padding", "((1,2),(3,4))", "--epilogue", "relu(", "a*b", "", "\x00",
         "../..", "-", "--", "--input", "1,2,3", "--device", "cuda", "--kernel", "gaussian:0,0", "é" * 50, "-o", ".",
         "x.npy", "PACK", "LAYERS")


def files(choose: Choose, world: World) -> str:
    """A layers file, a pack's manifest, an array or a picture with bytes changed, cut off or doubled."""
    room = furnished(world)
    kind = choose(("layers.toml", "pack/manifest.json", "x.npy", "w.npy", "p.png"))
    path = next(iter(sorted(room.glob(kind))), None)
    if path is None:        # a pack may name its manifest otherwise
        path = sorted(p for p in (room / "pack").rglob("*") if p.suffix == ".json")[0]
    data = bytearray(path.read_bytes())
    for _ in range(choose((1, 1, 2, 8))):
        place = choose(range(len(data) + 1))
        how = choose(("flip", "cut", "double", "digits", "zero"))
        if how == "flip" and place < len(data):
            data[place] ^= choose((1, 2, 128, 255))
        elif how == "cut":
            del data[place:place + choose((1, 9, 1 << 20))]
        elif how == "double":
            data[place:place] = data[place:place + 40]
        elif how == "digits":
            data[place:place] = choose((b"-", b"9999999999999", b"nan", b"[", b'"', b"\xff\xfe", b"null"))
        elif place < len(data):
            data[place] = 0
    path.write_bytes(bytes(data))
    command = {"layers.toml": ("explain", "LAYERS"), "x.npy": COMMANDS[9], "w.npy": COMMANDS[9],
               "p.png": COMMANDS[11]}.get(kind, ("pack", "list", "PACK"))
    return run(command, room, world, f"{path.relative_to(room)} = {bytes(data)[:160]!r}: ")


def commands(choose: Choose, world: World) -> str:
    """A command with words left out, put in and exchanged."""
    words = list(choose(COMMANDS))
    for _ in range(choose((0, 1, 1, 2, 3))):
        place, how = choose(range(len(words) + 1)), choose(("in", "out", "for"))
        if how == "in":
            words.insert(place, choose(WORDS))
        elif place < len(words):
            words[place:place + 1] = [] if how == "out" else [choose(WORDS)]
    return run(tuple(words), furnished(world), world, "")


def run(words: tuple[str, ...], room: Path, world: World, before: str) -> str:
    """Run a command in a folder; AssertionError if it ends in anything but what the documentation says."""
    names = {"LAYERS": str(room / "layers.toml"), "PACK": str(room / "pack")}
    words = tuple(names.get(word, str(room / word) if word.endswith((".npy", ".png")) or word == "made" else word)
                  for word in words)
    world.tell(f"{before}warpconv {' '.join(map(repr, words))}")
    before_it = os.getcwd()
    os.chdir(room)              # where an output goes that has another option's name
    try:
        made = CliRunner().invoke(cli, list(words))
    finally:
        os.chdir(before_it)
    if made.exception is not None and not isinstance(made.exception, SystemExit):
        raise made.exception
    assert made.exit_code in (0, 1, 2) and "Traceback" not in made.output, (made.exit_code, made.output[-500:])
    return "right" if made.exit_code == 0 else "refused"


@functools.cache
def _store(folder: Path) -> Path:
    """Sound files of each kind, made once."""
    from PIL import Image
    store = folder / "store"
    store.mkdir()
    rng = np.random.default_rng(1)
    np.save(store / "x.npy", rng.standard_normal((1, 1, 12, 12)).astype(np.float32))
    np.save(store / "w.npy", rng.standard_normal((1, 1, 3, 3)).astype(np.float32))
    Image.fromarray(rng.integers(0, 255, (12, 14), np.uint8)).save(store / "p.png")
    (store / "layers.toml").write_text(LAYERS)
    made = CliRunner().invoke(cli, ["build", *SMALL, "--arch", "sm_90", "-o", str(store / "pack")])
    if made.exit_code:          # no CUDA compiler: a manifest alone
        (store / "pack").mkdir(exist_ok=True)
        (store / "pack" / "manifest.json").write_text(json.dumps({"kernels": []}))
    return store


def furnished(world: World) -> Path:
    """A folder with fresh copies of them."""
    room = world.folder / "room"
    shutil.rmtree(room, ignore_errors=True)
    shutil.copytree(_store(world.folder), room)
    return room
