"""What the command line prints, and where it cannot: full disks, closed files, signals, control characters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.api.test_cli import good, run
from warpconv.commands import device
from warpconv.commands.output import printable

SMALL = ["--input", "1,1,40,50", "--filter", "1,3,3"]
RED = "\x1b[31m"


def process(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "warpconv.cli", *arguments], stderr=subprocess.PIPE, text=True,
                          timeout=60, **options)


@pytest.mark.thin(4)
@pytest.mark.parametrize("arguments", [["emit", *SMALL], ["explain", *SMALL], ["env", "--json"], ["--help"]],
                         ids=lambda words: words[0])
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_full_disk_is_one_message(arguments):
    with open("/dev/full", "w") as full:
        done = process(*arguments, stdout=full)
    assert done.returncode == 1
    assert done.stderr == "warpconv: standard output cannot be written: No space left on device\n"


@pytest.mark.thin(2)
@pytest.mark.parametrize("arguments", [["emit", *SMALL], ["explain", *SMALL]], ids=lambda words: words[0])
def test_a_closed_output_is_one_message(arguments):
    done = process(*arguments, preexec_fn=lambda: os.close(1))
    assert done.returncode == 1 and done.stderr == "warpconv: standard output cannot be written: it is closed\n"


def test_a_closed_output_is_no_matter_where_none_is_needed(tmp_path):
    assert process("emit", *SMALL, "-o", str(tmp_path / "k.cu"), preexec_fn=lambda: os.close(1)).returncode == 0
    assert (tmp_path / "k.cu").read_text() == good("emit", *SMALL)


def test_a_reader_that_has_gone_ends_it_in_silence():
    read, write = os.pipe()
    os.close(read)
    done = process("emit", *SMALL, stdout=write)
    os.close(write)
    assert done.returncode == 1 and done.stderr == ""


SLOW = """
import sys, time
import numpy
from warpconv import cli
saved = numpy.save
def slowly(file, array):
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
numpy.save = slowly
cli.main()
"""


def test_a_termination_leaves_nothing_half_written(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((1, 1, 9, 9), np.float32))
    np.save(tmp_path / "w.npy", np.ones((1, 1, 3, 3), np.float32))
    (tmp_path / "y.npy").write_bytes(b"older")
    with subprocess.Popen([sys.executable, "-c", SLOW, "run", "x.npy", "w.npy", "-o", "y.npy", "--device", "cpu"],
                          cwd=tmp_path, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout.readline() == "writing\n" and len(list(tmp_path.iterdir())) == 4
        started.send_signal(signal.SIGTERM)
        assert started.wait(30) == 128 + signal.SIGTERM
    assert sorted(path.name for path in tmp_path.iterdir()) == ["w.npy", "x.npy", "y.npy"]
    assert (tmp_path / "y.npy").read_bytes() == b"older"


# ---- what a terminal would obey

def test_control_characters_are_made_visible():
    assert printable(f"a{RED}b\x9bc\u202ed\ne\tf") == "a\\x1b[31mb\\x9bc\\u202ed\ne\tf"
    assert printable("a\nb\tc", lines=False) == "a\\nb\\tc"
    assert printable("Füße 図") == "Füße 図"


@pytest.mark.parametrize("arguments", [
    [RED], ["emit", f"--{RED}"], ["emit", *SMALL, "--algorithm", RED], ["explain", f"{RED}.toml"],
    ["emit", *SMALL, "-o", f"/no/{RED}/k.cu"], ["run", f"{RED}.npy", "w.npy", "-o", "y.npy"],
    ["filter", f"{RED}.png", "y.png", "--kernel", "box:3", "--device", "cpu"], ["pack", "list", RED]])
def test_mistakes_quote_no_control_characters(arguments):
    result = run(*arguments)
    assert result.exit_code in (1, 2) and "\x1b" not in result.output and "\\x1b" in result.stderr


@pytest.fixture
def pictures(tmp_path) -> Path:
    """A folder with two pictures of hostile names, a link to itself, a pipe, and a link to nothing."""
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "in"
    folder.mkdir()
    image.new("L", (8, 8), 7).save(folder / "good\nline.png")
    image.new("L", (8, 8), 7).save(folder / f"{RED}red.png")
    (folder / "loop.png").symlink_to("loop.png")
    (folder / "gone.png").symlink_to("nowhere.png")
    os.mkfifo(folder / "pipe.png")
    return folder


def test_what_is_no_picture_does_not_stop_a_folder(pictures, tmp_path):
    out = tmp_path / "out"
    result = run("filter", pictures, out, "--kernel", "box:3", "--device", "cpu", "--sheet", out / "sheet.png")
    assert result.exit_code == 1, result.output
    assert sorted(path.name for path in out.iterdir()) == [f"{RED}red.png", "good\nline.png", "sheet.png"]
    assert "2 of 5 pictures" in result.stdout and "\x1b" not in result.output
    assert result.stderr.count("\n") == 3 and "pipe.png: this is no regular file" in result.stderr


def test_names_of_results_are_printed_in_one_line(pictures, tmp_path):
    result = run("filter", pictures / "good\nline.png", tmp_path / f"{RED}x\ny.png", "--kernel", "box:3", "--device",
                 "cpu")
    assert result.exit_code == 0 and "written to " in result.stdout
    assert "\\x1b[31mx\\ny.png" in result.stdout and "\x1b" not in result.output


@pytest.mark.parametrize("form", ["../../x", "x/../png", "", "exe", "png/"])
def test_a_format_is_the_name_of_one(form, pictures, tmp_path):
    result = run("filter", pictures, tmp_path / "out", "--kernel", "box:3", "--device", "cpu", "--format", form)
    assert result.exit_code == 2 and "--format" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


# ---- why it runs on the CPU device

def test_the_missing_gpu_is_told_once_a_day(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WARPCONV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("WARPCONV_DISABLE_CACHE", raising=False)

    def told(reason: str | None) -> str:
        device.note_device(reason)
        return capsys.readouterr().err

    assert "no NVIDIA driver" in told("no NVIDIA driver on this machine")
    assert told("no NVIDIA driver on this machine") == told(None) == ""
    assert "too old" in told("the driver is too old")
    assert told("the driver is too old") == ""
    note = tmp_path / "cache" / device.SAID
    yesterday = time.time() - device.A_DAY - 60
    os.utime(note, (yesterday, yesterday))
    assert "too old" in told("the driver is too old")
    (tmp_path / "cache").chmod(0o777)
    assert "too old" in told("the driver is too old") and "too old" in told("the driver is too old")
    (tmp_path / "cache").chmod(0o700)
    monkeypatch.setenv("WARPCONV_DISABLE_CACHE", "1")
    assert "too old" in told("the driver is too old")
