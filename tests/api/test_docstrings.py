"""Public names: each callable's docstring names every parameter, what it returns, and what it raises."""

import dataclasses
import inspect
import re

import pytest

import warpconv

CALLABLES = [name for name in warpconv.__all__ if inspect.isfunction(getattr(warpconv, name))]
RECORDS = ["ConvShape", "KernelSpec", "KernelPlan", "KernelSource"]
TOTAL = {"graph"}       # takes nothing and cannot fail


def missing(text: str, names: list[str]) -> list[str]:
    return [name for name in names if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]


@pytest.mark.parametrize("name", CALLABLES)
def test_a_call_says_what_it_takes_gives_and_raises(name):
    function = getattr(warpconv, name)
    text = inspect.getdoc(function) or ""
    wanted = [p.name for p in inspect.signature(function).parameters.values()]
    assert not missing(text, wanted)
    assert "Returns" in text
    assert name in TOTAL or "Raises" in text and ("Error" in text or "UnsupportedSpec" in text)


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_says_what_its_fields_are(name):
    kind = getattr(warpconv, name)
    assert not missing(inspect.getdoc(kind) or "", [f.name for f in dataclasses.fields(kind)])


@pytest.mark.parametrize("name", ["Kernel", "Filter", "Pack", "Graph", "Arch", "Epilogue"])
def test_a_class_and_its_methods_are_described(name):
    kind = getattr(warpconv, name)
    bare = [n for n, value in vars(kind).items() if not n.startswith("_") and not inspect.getdoc(value)
            and (inspect.isfunction(value) or isinstance(value, (classmethod, staticmethod, property)))]
    assert inspect.getdoc(kind) and not bare


def test_what_is_missing_is_seen():
    assert missing("``input`` (N, C), sigma", ["input", "sigma", "out", "sigm"]) == ["out", "sigm"]
