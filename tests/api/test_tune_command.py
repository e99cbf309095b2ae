"""The command line's tune: what it times, lists, merges and draws, and that a session killed loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.runtime.tuning.test_tune import path, quick  # noqa: F401
from warpconv.cli import cli
from warpconv.runtime.tuning import choice, files
from warpconv.runtime.tuning.records import Database

COMMAND = ["--input", "2,2,11,21", "--filter", "2,3,2", "--padding", "1", "--device", "cpu"]
ROOT = Path(__file__).parents[2]


def run(*arguments):
    return CliRunner().invoke(cli, ["tune", *map(str, arguments)])


def test_the_command_times_lists_merges_and_draws(path, tmp_path):
    pytest.importorskip("matplotlib")
    words = [*COMMAND, "--algorithm", "direct", "--set", "block_size_x=16,32", "--database", path]
    done = run(*words, "--plot", tmp_path / "space.svg")
    assert done.exit_code == 0 and "best" in done.stdout and "CPU device" in done.stdout, done.output
    assert "block_size_x" in (tmp_path / "space.svg").read_text()
    record = json.loads(run(*words, "--json").stdout)
    (layer,) = record["layers"]
    assert layer["tried"] == {} and layer["skipped"] == sum(layer["measured"]["outcomes"].values())
    assert layer["measured"]["best"]["values"]["block_size_x"] in (16, 32, 64)
    assert "CPU device" in run("--list", "--database", path).stdout
    merged = tmp_path / "merged.json"
    assert run("--merge", path, path, "-o", merged).exit_code == 0 and merged.read_text() == path.read_text()
    record = json.loads(run("--merge", path, "-o", merged, "--best", 1, "--json").stdout)
    assert record["layers"][0]["outcomes"] == {"timed": 1} and len(files.read(merged).timings) == 1
    plan = json.loads(CliRunner().invoke(cli, ["explain", *COMMAND[:-2], "--tuning", str(path), "--json"]).stdout)
    assert plan["chosen"] == "direct" and plan["tuning"].startswith("measured: ") and "CPU device" in plan["tuning"]
    emitted = CliRunner().invoke(cli, ["emit", *COMMAND[:-2], "--tuning", str(path)]).stdout
    assert f"block_size_x={layer['measured']['best']['values']['block_size_x']}" in emitted and "2026" not in emitted


def test_a_listing_says_which_database_has_what(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPCONV_TUNE_DB", str(tmp_path / "none.json"))     # the first session would make it
    shipped, own = run("--list").stdout.split("none.json")
    assert "H200" in shipped and "shipped" in shipped and own.split() == ["nothing", "is", "measured"]
    record = json.loads(run("--list", "--json").stdout)
    assert {row["database"] for row in record["layers"]} == {"shipped"}
    monkeypatch.setattr(choice, "shipped", Database)
    assert "nothing is measured" in run("--list").stdout


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_database_that_is_named_and_not_there_is_told(tmp_path, more):
    done = run("--list", "--database", tmp_path / "none.json", *more)
    assert done.exit_code and done.stdout == "" and "none.json" in done.stderr and "cannot be read" in done.stderr
    assert "--database" in done.stderr and not (tmp_path / "none.json").exists()


def test_a_file_of_layers(tmp_path, path):
    (tmp_path / "layers.toml").write_text(
        '[layer.one]\ninput = [1, 1, 9, 12]\nfilter = [1, 3, 3]\nalgorithm = "direct"\nset = {block_size_x = 32}\n'
        '[layer.two]\ninput = [1, 2, 9, 12]\nfilter = [2, 2, 2]\nalgorithm = "direct"\nset = {block_size_x = 16}\n')
    done = run(tmp_path / "layers.toml", "--device", "cpu", "--database", path, "--json")
    assert done.exit_code == 0, done.output
    assert [layer["tried"] for layer in json.loads(done.stdout)["layers"]] == [{"timed": 2}, {"timed": 2}] or \
        all(layer["tried"]["timed"] in (1, 2) for layer in json.loads(done.stdout)["layers"])


@pytest.mark.parametrize("arguments, says", [
    ([], "LAYERS"), (["a.toml", *COMMAND], "LAYERS"), (["--merge"], "--merge"),
    (["--merge", "a", "-o", "b", "--list"], "--list"),
    (["--best", "2", *COMMAND], "--best"), (["-o", "x.json", *COMMAND], "--output"), (["no-such-file"], "no-such-file"),
    ([*COMMAND, "--index-bits", "64"], "--index-bits"), ([*COMMAND, "--accumulate", "float16"], "--accumulate"),
    ([*COMMAND, "--plot", "space.txt"], "--plot"),
    ([*COMMAND, "--strategy", "luck"], "strategy"), ([*COMMAND, "--set", "block_size_x=9..1"], "block_size_x"),
    ([*COMMAND, "--set", "nothing=1"], "nothing"), ([*COMMAND, "--budget", "-1"], "budget"),
    ([*COMMAND, "--algorithm", "magic"], "magic"), (["--merge", "a", "-o", "b", "--best", "0"], "--best"),
    (["twelve_layers", "--set", "k_tile=1", "--device", "cpu"], "--set")])
def test_mistakes_are_one_message(arguments, says, path):
    done = run(*arguments, *(() if "--merge" in arguments else ("--database", path)))
    assert done.exit_code == 2 and says in done.stderr and "Traceback" not in done.output, done.output
    assert not path.exists()


INTERRUPTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)      # a shell's background job has it ignored
import sys
from pathlib import Path
from warpconv.cli import main
from warpconv.runtime.tuning import session
session.SAVE_SECONDS = 0.0
sys.argv = ["warpconv", "tune", *sys.argv[1:]]
main()
"""


@pytest.mark.long
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_a_session_that_is_killed_loses_nothing_that_was_kept(path, sign):
    words = [*COMMAND, "--algorithm", "direct", "--database", str(path)]
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED, *words], cwd=ROOT, stderr=subprocess.PIPE,
                               env={**os.environ, "WARPCONV_COMPILE_JOBS": "1"}, text=True)
    deadline = time.monotonic() + 120
    while not path.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(sign)
    message = process.communicate(timeout=120)[1]
    assert process.returncode == (130 if sign is signal.SIGINT else -signal.SIGKILL), message
    if sign is signal.SIGINT:
        assert "the same command goes on" in message and "interrupted" in message and "Traceback" not in message
    kept = files.read(path)
    (subject,) = kept.subjects()
    before = len(kept.of(subject))
    record = json.loads(run(*words, "--configurations", 2, "--json").stdout)
    assert record["layers"][0]["skipped"] == before >= 1
    assert record["layers"][0]["tried"]["timed"] >= 1 and len(files.read(path).of(subject)) > before
