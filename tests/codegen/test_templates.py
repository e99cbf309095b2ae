"""Templates have the shape of their text: no arithmetic comes anew, and fragments keep their family's contract."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from jinja2 import nodes

import warpconv.templates
from warpconv.codegen.render import environment

HERE = Path(warpconv.templates.__file__).parent
ARITHMETIC = (nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow, nodes.Add, nodes.Sub)
# Operators in expressions of templates, by folder: what a planner's numbers should say, or a constant of the text.
# These numbers only ever get smaller.
MOST_ARITHMETIC = {"channels": 58, "parts": 6, "pixels": 5, "reuse": 28, "staged": 34, "toeplitz": 16,
                   "toeplitz_nhwc": 15, "wide": 103}
# Which fragments stand in for one another: a template takes its macros from the one that the plan names. Every member
# has all macros of the contract, with the same parameters; one that has nothing to say is empty.
FAMILIES = {
    "channels/body": ("ring", "tile"),
    "parts/gemm/order": ("taps", "table", "window"),
    "parts/gemm/nhwc/order": ("taps", "table"),
    "phases_gemm/layout": ("nchw", "nhwc"),
    "pixels/sums": ("float", "mad", "dp4a"),
    "reuse/exchange": ("exchange_none", "exchange_select", "exchange_packed", "exchange_dynamic",
                       "exchange_dynamic_local"),
    "reuse/sub_block": ("rows_reload", "rows_shifted", "rows_turning"),
    "reuse/jobs": ("jobs_direct", "jobs_predicated"),
    "staged/flow": ("single", "double", "quarters"),
    "toeplitz/walk": ("bands", "planes"),
    "toeplitz/border": ("zeros", "value", "pixels"),
    "toeplitz_nhwc/border": ("zeros", "value", "pixels"),
    "wgmma/form": ("im2col", "halo", "planes"),
    "wgmma/loop": ("im2col", "halo"),
    "wgmma/splitting": ("in_place", "turned"),
    "wgmma/stores": ("staged", "pairs", "nchw"),
    "filter_gradient/walk": ("tile", "strip"),
    "wide/rows": ("rows_registers", "rows_async", "rows_bordered"),
    "wide/filter": ("weights", "separable"),
}


@functools.cache
def parsed(name: str) -> nodes.Template:
    made = environment()
    return made.parse(made.loader.get_source(made, name)[0])


def templates() -> list[str]:
    return sorted(path.relative_to(HERE).as_posix() for path in HERE.rglob("*.jinja"))


def folder_of(name: str) -> str:
    return name.rpartition("/")[0]


def macros(name: str) -> dict[str, tuple[str, ...]]:
    """Parameters of a template's macros by name, those that it takes over from another one included."""
    found = {}
    for node in parsed(name).find_all(nodes.FromImport):
        if isinstance(node.template, nodes.Const):
            known = macros(node.template.value)
            found |= {item: known[item] for item in node.names if item in known}
    whole = {node.target: macros(node.template.value) for node in parsed(name).find_all(nodes.Import)}
    for node in parsed(name).find_all(nodes.Assign):
        pairs = [(node.target, node.node)]
        if isinstance(node.target, nodes.Tuple) and isinstance(node.node, nodes.Tuple):
            pairs = list(zip(node.target.items, node.node.items))
        found |= {target.name: whole[value.node.name][value.attr] for target, value in pairs
                  if isinstance(value, nodes.Getattr) and getattr(value.node, "name", "") in whole}
    return found | {macro.name: tuple(arg.name for arg in macro.args) for macro in parsed(name).find_all(nodes.Macro)}


def test_no_arithmetic_comes_anew():
    found: dict[str, int] = dict.fromkeys(map(folder_of, templates()), 0)
    for name in templates():
        found[folder_of(name)] += len(list(parsed(name).find_all(ARITHMETIC)))
    more = {folder: count for folder, count in found.items() if count > MOST_ARITHMETIC.get(folder, 0)}
    fewer = {folder: count for folder, count in found.items() if count < MOST_ARITHMETIC.get(folder, 0)}
    assert not more, f"arithmetic belongs to a planner's numbers, or to the emitted text with names: {more}"
    assert not fewer, f"well done: lower MOST_ARITHMETIC to {fewer}"


def chosen_imports() -> list[tuple[str, str, tuple[str, ...]]]:
    """Template, family, and the macros that it takes from whichever member the plan names."""
    found = []
    for name in templates():
        for node in parsed(name).find_all(nodes.FromImport):
            if isinstance(node.template, nodes.Const):
                continue
            words = [part.attr for part in node.template.find_all(nodes.Getattr)]
            chosen = next(word for word in words if word not in ("value", "border"))
            chosen = "border" if chosen == "kind" else "flow" if chosen in ("quarters", "buffers") else chosen
            folder = node.template.nodes[0].value.rstrip("/")
            names = tuple(item if isinstance(item, str) else item[0] for item in node.names)
            found.append((name, f"{folder}/{chosen.removesuffix('_fragment')}", names))
    return found


def test_every_choice_of_a_fragment_is_of_a_family():
    assert {family for _, family, _ in chosen_imports()} == set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_its_contract(family):
    folder = family.rpartition("/")[0]
    contract = {macro for _, chosen, names in chosen_imports() if chosen == family for macro in names}
    members = {member: macros(f"{folder}/{member}.cuh.jinja") for member in FAMILIES[family]}
    assert contract
    for macro in sorted(contract):
        missing = [member for member, known in members.items() if macro not in known]
        assert not missing, f"{macro} is not in {missing}"
        assert len({known[macro] for known in members.values()}) == 1, f"{macro} takes other parameters in each"
