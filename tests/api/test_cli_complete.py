"""What a shell is given to complete, through Click's own protocol."""

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

from warpconv.cli import cli
from warpconv.codegen.border import Border
from warpconv.codegen.dtypes import DType
from warpconv.codegen.registry import ALGORITHMS
from warpconv.runtime.layers import shipped


def completions(*words: str) -> list[str]:
    """Of the last word, given those before it."""
    found = ShellComplete(cli, {}, "warpconv", "_WARPCONV_COMPLETE").get_completions(list(words[:-1]), words[-1])
    return [item.value for item in found]


@pytest.mark.parametrize("verb", ["emit", "inspect", "explain", "build", "tune", "run", "filter"])
def test_algorithms(verb):
    assert completions(verb, "--algorithm", "") == ["auto", *ALGORITHMS]
    assert completions(verb, "--algorithm", "wi") == ["wide"]


@pytest.mark.parametrize("words", [["emit", "--dtype"], ["run", "--dtype"], ["inspect", "--out-dtype"],
                                   ["build", "--weight-dtype"]], ids=" ".join)
def test_element_types(words):
    assert completions(*words, "") == [dtype.value for dtype in DType]
    assert completions(*words, "float") == ["float32", "float16"]


def test_borders():
    assert completions("explain", "--padding-mode", "") == [border.value for border in Border]
    assert completions("filter", "--border", "sy") == ["symmetric"]
    assert "opencv:REFLECT_101" in completions("filter", "--border", "opencv:")


@pytest.mark.parametrize("verb", ["emit", "inspect", "explain", "build", "tune"])
def test_shipped_layers(verb):
    assert completions(verb, "") == list(shipped())
    assert completions(verb, "twe") == ["twelve_layers"]
    assert completions(verb, "./mine") == ["./mine"]        # of type file: the shell's own completion


def test_filters_and_devices():
    assert completions("filter", "--kernel", "gau") == ["gaussian:"]
    assert "sobel-x" in completions("filter", "--kernel", "")
    assert completions("run", "--device", "c") == ["cpu", "cuda"]
