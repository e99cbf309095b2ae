"""The command line: emit, exit codes, records, and that a user's mistake never shows a traceback."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from warpconv.cli import cli
from warpconv.codegen.banner import emit_command
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.render import render
from warpconv.codegen.select import explain
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Numerics
from warpconv.runtime.layers import read_layers

GOLDEN = Path(__file__).parent / "cli_records.json"
DOCUMENT = Path(__file__).parents[2] / "docs" / "command-line.md"
BEGIN, END = "<!-- switches: begin -->\n", "<!-- switches: end -->\n"
LAYER = ["--input", "N,1,H,W", "--filter", "1,5,5", "--padding", "2"]
SMALL = ["--input", "1,1,40,50", "--filter", "1,3,3"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments])


def good(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def keys(value: object) -> object:
    """The names in a record, lists by their first element, so that a golden file can hold them."""
    if isinstance(value, dict):
        return {name: keys(item) for name, item in value.items()}
    if isinstance(value, list):
        return [keys(value[0])] if value and isinstance(value[0], dict) else []
    return type(value).__name__ if isinstance(value, bool) else ""


# ---- emit

@pytest.mark.thin(2)
@pytest.mark.parametrize("layer", [
    LAYER,
    [*LAYER, "--algorithm", "direct", "--set", "block_size_x=32"],
    [*LAYER, "--algorithm", "reuse", "--set", "exchange=packed", "--set", "weights=constant"],
    ["--input", "3,8,30,40", "--filter", "4,3,5", "--groups", "2", "--padding", "1,2,3,0", "--epilogue", "bias,relu"],
    ["--input", "N,4,H,W", "--filter", "4,3,3", "--stride", "2,1", "--dilation", "1,300", "--padding", "1,2",
     "--arch", "sm_80"],
    [*LAYER, "--index-bits", "64"],
    [*LAYER, "--pitched"],
    ["--input", "1,30,31,32", "--filter", "32,11,4", "--groups", "2", "--layout", "NHWC", "--padding-mode", "circular",
     "--dtype", "float16", "--arch", "sm_90"],
    ["--input", "N,H,500,3", "--filter", "3,5,5", "--groups", "3", "--dtype", "uint8", "--layout", "NHWC", "--pitched"],
    *([*layer, "--dtype", dtype, *form, *rest] for dtype in ("float32", "float16", "bf16") for layer, form in (
        (["--input", "N,8,H,W", "--filter", "8,3,3", "--groups", "8", "--padding", "1"], []),
        (["--input", "2,24,30,8", "--filter", "16,3,5", "--groups", "8"], ["--layout", "NHWC"]),
        (["--input", "N,H,W,8", "--filter", "8,7,7", "--groups", "8", "--padding", "same"], ["--layout", "NHWC"]))
      for rest in ([], ["--algorithm", "direct", "--epilogue", "bias"])),
    ["--input", "1,16384,7,7", "--filter", "16384,3,3", "--groups", "16384"],       # letters' 512^2 pass 2^31 elements
    ["--input", "1,16384,7,7", "--filter", "16384,1,1", "--algorithm", "direct"],
])
def test_the_banner_has_the_command_that_emits_the_same_bytes(layer):
    text = good("emit", *layer)
    lines = text.split("// Emit it again with\n")[1].split("\n//\n")[0].splitlines()
    assert all(line.endswith(" \\") for line in lines[:-1])
    words = " ".join(line.removeprefix("//").removesuffix("\\") for line in lines).split()
    assert words[:2] == ["warpconv", "emit"]
    assert good(*words[1:]) == text


@pytest.mark.long
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_every_algorithms_command_gives_its_plan_again(dtype, layout):
    """Also where the plan asks for sizes that letters do not stand for, and in half arithmetic."""
    made = []
    for sizes, numerics in itertools.product(((99, 99), (98, 514), (56, 56), (7, 7), (14, 60)), Numerics):
        shape = ConvShape(c=8, h=sizes[0], w=sizes[1], k=8, r=3, s=3, groups=8, dtype=dtype, layout=layout)
        made += [candidate.plan for candidate in explain(shape, "sm_80", epilogue=("bias",), numerics=numerics)
                 if candidate.supported]
    assert {plan.spec.algorithm for plan in made} >= {"direct"}
    for plan in made:
        words = emit_command(plan).split()
        assert words[:2] == ["warpconv", "emit"]
        assert good(*words[1:]) == render(plan).text, emit_command(plan)


def test_emit_to_a_file_is_the_same_text(tmp_path):
    assert good("emit", *LAYER, "-o", tmp_path / "k.cu") == ""
    assert (tmp_path / "k.cu").read_text() == good("emit", *LAYER)
    assert [p.name for p in tmp_path.iterdir()] == ["k.cu"]


def test_emit_does_not_depend_on_n_h_w_when_all_is_set():
    words = good("emit", *LAYER).split("Emit it again with\n")[1].split("\n//\n")[0]
    words = words.replace("//", "").replace("\\", "").replace("N,1,H,W", "7,1,33,1000").split()
    assert good(*words[1:]) == good("emit", *LAYER)


def test_emit_writes_through_links_and_pipes(tmp_path):
    text = good("emit", *LAYER)
    (tmp_path / "k.cu").write_text("older")
    (tmp_path / "link").symlink_to("k.cu")
    good("emit", *LAYER, "-o", tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "k.cu").read_text() == text
    os.mkfifo(tmp_path / "pipe")
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_text()), daemon=True)
    reader.start()
    good("emit", *LAYER, "-o", tmp_path / "pipe")
    reader.join(10)
    assert found == [text] and (tmp_path / "pipe").is_fifo()
    assert len(list(tmp_path.iterdir())) == 3


# ---- mistakes

@pytest.mark.parametrize("arguments, code, says", [
    (["emit"], 2, "--input"),
    (["emit", "--input", "1,1,9,9"], 2, "--filter"),
    (["emit", "--input", "1,C,9,9", "--filter", "1,3,3"], 2, "N,C,H,W"),
    (["emit", "--input", "1,1,9", "--filter", "1,3,3"], 2, "N,C,H,W"),
    (["emit", "--input", "1,1,9,9,9", "--filter", "1,3,3"], 2, "N,C,H,W"),
    (["emit", "--input", "H,1,N,9", "--filter", "1,3,3"], 2, "N,C,H,W"),
    (["emit", "--input", "1,1,2,2", "--filter", "1,3,3"], 2, "empty output"),
    (["emit", "--input", "1,-1,2,2", "--filter", "1,3,3"], 2, "out of range"),
    (["emit", "--input", "1,3,9,9", "--filter", "2,3,3", "--groups", "2"], 2, "groups"),
    (["emit", *LAYER, "--padding", "left"], 2, "same or valid"),
    (["emit", *LAYER, "--stride", "1,2,3"], 2, "A or A,B"),
    (["emit", *LAYER, "--set", "edges"], 2, "NAME=VALUE"),
    (["emit", *LAYER, "--set", "edges=round"], 2, "predicated"),
    (["emit", *LAYER, "--algorithm", "magic"], 2, "direct"),
    (["emit", *LAYER, "--arch", "hopper"], 2, "sm_90"),
    (["emit", *LAYER, "--arch", "sm_60"], 2, "7.0 to 12.x (--arch = 'sm_60')"),
    (["inspect", *LAYER, "--arch", "sm_999"], 2, "7.0 to 12.x"),
    (["explain", *LAYER, "--arch", "sm_999"], 2, "7.0 to 12.x"),
    (["build", *LAYER, "-o", "pack", "--arch", "sm_60+PTX"], 2, "7.0 to 12.x"),
    (["build", "twelve_layers", "-o", "pack", "--arch", "sm_90", "--padding", "1", "--set", "k_tile=1"], 2,
     "(--padding, --set)"),
    (["emit", *LAYER, "--set", "k_tile=1", "--set", "k_tile=2"], 2, "set twice (--set = 'k_tile=2')"),
    (["emit", *LAYER, "--epilogue", "bias,relu", "--activation", "relu"], 2, "--epilogue and --activation"),
    (["emit", "--input", "N,1,H,Q", "--filter", "1,3,3"], 2, "'N,1,H,Q'"),
    (["emit", "--input", "0,1,9,9", "--filter", "1,3,3"], 2, "(--input = 0)"),
    (["emit", "--input", "1,1,9,9", "--filter", "1,0,3"], 2, "(--filter = 0)"),
    (["emit", *LAYER, "--algorithm", "reuse", "--set", "edges=round"], 2, "(--set edges = 'round')"),
    (["build", *LAYER, "-o", "pack", "--arch", "sm_90", "--jobs", "0"], 2, "(--jobs = 0)"),
    (["run", "X", "W", "-o", "y.npy", "--epilogue", "bias"], 2, "name a BIAS file"),
    (["run", "W", "X", "-o", "y.npy"], 2, "(X = (1, 1, 3, 3))"),
    (["run", "X", "W", "-o", "y.txt"], 2, ".npy"),
    (["emit", *LAYER, "--dtype", "float99"], 2, "float32"),
    (["emit", *LAYER, "--dtype", "int32"], 2, "there is no layer from int32 to int32"),
    (["emit", *LAYER, "--layout", "CHWN"], 2, "(--layout = 'CHWN'); one of NCHW, NHWC"),
    (["emit", *LAYER, "--layout", "NHWC"], 2, "1,224,224,3 or N,H,W,3"),
    (["emit", *LAYER, "--accumulate", "float8"], 2, "(--accumulate = 'float8'); one of float32, float16"),
    (["emit", *LAYER, "--accumulate", "int32"], 2, "int32 is for integer filters"),
    (["emit", *LAYER, "--padding-mode", "mirror"], 2, "(--padding-mode = 'mirror'); scipy's 'mirror' is 'reflect'"),
    (["emit", *LAYER, "--out-dtype", "int64"], 2, "(--out-dtype = 'int64'); one of float32"),
    (["emit", *LAYER, "--accumulate", "float16"], 2, "half arithmetic on float32 elements (it is for float16"),
    (["run", "X", "W", "-o", "y.npy", "--dtype", "float16"], 2, "elements are float32, float16 is accepted here (X"),
    (["run", "BITS", "W", "-o", "y.npy", "--dtype", "bfloat16"], 2, "(W); save array.astype(ml_dtypes.bfloat16)"),
    (["run", "X", "W", "-o", "y.npy", "--layout", "NHWC", "--padding", "9"], 2, "where input has 9 (W"),
    (["emit", *LAYER, "--epilogue", "tanh"], 2, "write 'expr(tanh(v))'"),
    (["emit", *LAYER, "--epilogue", "square"], 2, "relu"),
    (["emit", *LAYER, "--index-bits", "48"], 2, "32 or 64"),
    (["emit", "--input", "1,1,65536,65536", "--filter", "1,3,3", "--index-bits", "32"], 2, "2^31"),
    (["emit", *LAYER, "-o", "/no/such/folder/k.cu"], 2, "folder does not exist"),
    (["emit", *LAYER, "--stride", "2", "--algorithm", "reuse"], 2, "reuse cannot serve"),
    (["emit", "--bogus"], 2, "--bogus"),
    (["bogus"], 2, "bogus"),
    (["run", "/no/such.npy", "/no/such.npy", "-o", "y.npy"], 2, "No such file"),
    (["filter", "/no/such.png", "y.png", "--kernel", "box:3"], 2, "No such file"),
    (["filter", __file__, "y.png", "--kernel", "box:3"], 2, "cannot be read"),
    (["filter", "/no/such.png", "y.png", "--kernel", "blur"], 2, "gaussian:SIZE"),
    (["filter", "/no/such.png", "y.png", "--kernel", "box:3", "--border", "wrap"], 2, "circular"),
    (["demo", "--kernel", "box:5"], 2, "7x7"),
    (["build", "-o", "pack"], 2, "LAYERS"),
    (["build", *LAYER, "-o", "pack", "--arch", "sm_9x"], 2, "sm_90"),
    (["build", "/no/such.toml", "-o", "pack", "--arch", "sm_90"], 2, "cannot be read"),
    (["run", "X", "W", "-o", "y.npy", "--device", "tpu"], 2, "cuda:1"),
])
def test_a_mistake_is_one_message_and_its_exit_code(arguments, code, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, shape in (("X", (1, 1, 9, 9)), ("W", (1, 1, 3, 3))):
        with open(name, "wb") as file:
            np.save(file, np.ones(shape, np.float32))
    with open("BITS", "wb") as file:
        np.save(file, np.full((1, 1, 9, 9), 0x3F80, np.uint16))
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert says in result.stderr and result.stdout == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["BITS", "W", "X"]


def test_switches_that_cannot_be_read_are_named(monkeypatch):
    monkeypatch.setenv("WARPCONV_LOG_LEVEL", "loud")
    result = run("env")
    assert result.exit_code == 2 and "WARPCONV_LOG_LEVEL" in result.stderr


def test_a_missing_gpu_is_a_failure(tmp_path):
    from warpconv.runtime.devices.cuda import contexts
    if contexts.usable() is None:
        pytest.skip("there is a GPU")
    np.save(tmp_path / "a.npy", np.ones((1, 1, 3, 3), np.float32))
    result = run("run", tmp_path / "a.npy", tmp_path / "a.npy", "-o", tmp_path / "y.npy", "--device", "cuda")
    assert result.exit_code == 1 and "no GPU" in result.stderr


def test_interrupts_have_their_exit_code(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("warpconv.codegen.render.render", interrupt)
    assert run("emit", *LAYER).exit_code == 130


def test_an_interrupt_while_the_command_is_imported(monkeypatch, capsys):
    class Interrupted(types.ModuleType):
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "warpconv.cli", Interrupted("warpconv.cli"))
    from warpconv.__main__ import main
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130 and capsys.readouterr().err == "warpconv: interrupted\n"


@pytest.mark.long
def test_the_process_itself_shows_no_traceback_and_takes_a_closed_pipe():
    command = [sys.executable, "-m", "warpconv.cli"]
    wrong = [*command, "emit", "--input", "1,1,2,2", "--filter", "1,3,3"]
    failed = subprocess.run(wrong, capture_output=True, text=True)
    assert failed.returncode == 2 and "Traceback" not in failed.stderr and failed.stdout == ""
    piped = subprocess.Popen([*command, "inspect", *SMALL, "--no-measure"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    piped.stdout.close()
    assert "Traceback" not in piped.stderr.read()
    piped.stderr.close()
    piped.wait()


def test_version_and_help():
    from warpconv import __version__
    from warpconv.runtime.env import table
    assert __version__ in good("--version")
    text = good("--help")
    assert all(name in text for name, *_ in table())
    for verb in ("emit", "inspect", "explain", "build", "tune", "run", "filter", "demo", "cache", "env"):
        assert verb in text and "Usage" in good(verb, "--help")


def test_the_documentation_has_every_switch():
    """Written anew by: python -m pytest tests/api/test_cli.py -k documentation --update-golden"""
    from tests import settings
    from warpconv.commands.env import switches_markdown
    text = DOCUMENT.read_text()
    head, _, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    assert end, f"{DOCUMENT.name} has lost its marks {BEGIN.strip()} and {END.strip()}"
    if settings.update_golden:
        DOCUMENT.write_text(head + BEGIN + switches_markdown() + END + tail)
    assert switches_markdown() in DOCUMENT.read_text()


# ---- records

@pytest.mark.long
def test_records_have_the_golden_keys(tmp_path):
    """Written anew by: python -m pytest tests/api/test_cli.py -k golden --update-golden"""
    from tests import settings
    from warpconv.runtime.build import compilers
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    np.save(tmp_path / "x.npy", np.ones((1, 1, 8, 8), np.float32))
    np.save(tmp_path / "w.npy", np.ones((1, 1, 3, 3), np.float32))
    image.new("L", (8, 8)).save(tmp_path / "p.png")
    files = [str(tmp_path / name) for name in ("x.npy", "w.npy")]
    commands = {"emit": ["emit", *SMALL], "explain": ["explain", *SMALL],
                "inspect": ["inspect", *SMALL, "--algorithm", "reuse"],
                "run": ["run", *files, "-o", str(tmp_path / "y.npy"), "--device", "cpu", "--check"],
                "build": ["build", *SMALL, "--arch", "sm_90", "-o", str(tmp_path / "pack")],
                "pack list": ["pack", "list", str(tmp_path / "pack")],
                "filter": ["filter", str(tmp_path / "p.png"), str(tmp_path / "q.png"), "--kernel", "box:3", "--device",
                           "cpu"],
                "demo": ["demo", "--device", "cpu", "-o", str(tmp_path / "demo")],
                "cache list": ["cache", "list"], "cache clear": ["cache", "clear", "nothing-has-this-name"],
                "cache verify": ["cache", "verify"], "env": ["env"]}
    if not any(found.where for found in compilers.available().values()):
        assert not settings.update_golden
        del commands["build"], commands["pack list"]
    found = {name: json.loads(good(*command, "--json")) for name, command in commands.items()}
    assert all(record["schema"] == (2 if name == "filter" else 1) for name, record in found.items())
    found["env"]["gpus"], found["inspect"]["compiled"] = {}, []         # these depend on the machine
    text = json.dumps({name: keys(record) for name, record in found.items()}, indent=1) + "\n"
    if settings.update_golden:
        GOLDEN.write_text(text)
    golden = json.loads(GOLDEN.read_text())
    assert {name: golden[name] for name in commands} == json.loads(text)
    assert set(golden) - {"build", "pack list"} == set(commands) - {"build", "pack list"}


@pytest.mark.parametrize("layer", read_layers("twelve_layers"), ids=lambda layer: layer.name)
def test_explain_lists_every_algorithm_for_each_of_the_twelve_layers(layer):
    s = layer.shape
    record = json.loads(good("explain", "--input", f"{s.n},{s.c},{s.h},{s.w}", "--filter", f"{s.k},{s.r},{s.s}",
                             "--stride", s.stride[0], "--json"))
    assert [c["algorithm"] for c in record["candidates"] if c["chosen"]] == [record["chosen"]]
    assert {c["algorithm"] for c in record["candidates"]} == set(ALGORITHMS)
    assert all(c["reason"] and (c["estimate"] is None or c["estimate"] > 0) for c in record["candidates"])


def test_explain_says_why():
    text = good("explain", *LAYER, "--stride", "2")
    assert "direct" in text and "declined" in text and "stride 1" in " ".join(text.split())
    record = json.loads(good("explain", *LAYER, "--algorithm", "direct", "--json"))
    assert record["chosen"] == record["candidates"][0]["algorithm"] == "direct"
    assert record["assumed"] == ["N", "H", "W"]


def test_inspect_counts_what_was_planned():
    record = json.loads(good("inspect", *SMALL, "--algorithm", "direct", "--json"))
    loads = record["measured"]["units"][0]
    assert loads["planned"] == loads["measured"] == 9
    assert record["measured"]["worst_ratio"] <= 1
    rows = {row["buffer"]: row for row in record["measured"]["buffers"]}
    assert rows["x"]["load_requests"] > 0 and rows["y"]["store_requests"] > 0 == rows["x"]["store_requests"]
    text = good("inspect", *LAYER, "--no-measure")
    assert text.startswith(good("emit", *LAYER)) and "assumed" in text


def test_inspect_without_compiler_and_disassembler_shows_the_rest(monkeypatch):
    from warpconv.codegen.errors import ToolNotFound

    def missing(*_, **__):
        raise ToolNotFound("no compiler here", hint="get one")

    monkeypatch.setattr("warpconv.runtime.build.pipeline.build", missing)
    text = good("inspect", *SMALL, "--no-source", "--ptx", "--sass")
    assert text.count("not: no compiler here; get one") == 3
    assert "the emitted text, executed" in text and "the text above" not in text


@pytest.mark.nvcc
def test_inspect_shows_registers_ptx_and_sass():
    record = json.loads(good("inspect", *SMALL, "--no-measure", "--no-source", "--ptx", "--sass", "--json"))
    assert record["compiled"][0]["registers"] > 0 and ".version" in record["ptx"] and "FFMA" in record["sass"]
    assert record["source"] is None
