"""What emitted text declares and does not use is taken out: constants, functions, variables, parameters."""

from __future__ import annotations

import re

from .names import ASSIGNS, Name, Names
from .tokens import Token, drop_all, drop_lines, tokens_from

# what may be called for its value alone; everything else is called for what it does
_PURE = re.compile(r"min|max|abs|fmaf|__byte_perm|make_\w+|__ldg|__\w+_as_\w+|__cvta_generic_to_shared|wc_\w+_to_\w+|"
                   r"at_border|sizeof|to_element")


def prune(names: Names) -> None:
    """Until every name is used."""
    removed = True
    while removed:
        removed = False
        for name in names.all:
            if name.token.alive and not name.read and _removed(name, names):
                removed = True


def _removed(name: Name, names: Names) -> bool:
    if name.kind in ("function", "type"):
        drop_lines(name.first, name.last)
        return True
    if name.kind in ("constant", "variable", "lambda"):
        return _declarator(name)
    if name.kind == "parameter" and name.owner is not None and name.owner.kind in ("function", "lambda"):
        return _parameter(name, name.owner, names)
    return False


def _declarator(name: Name) -> bool:
    statement = name.statement
    if statement is None or statement.last is None or statement.last.text == ":":
        return False
    if name.kind != "lambda" and not _pure(name.token.after, name.end):
        return False
    here = [other for other in statement.names if other.token.alive]
    if here == [name]:
        if statement.first.before.text == "(":       # of a loop
            return False
        drop_lines(statement.first, statement.last)
        return True
    at = here.index(name)
    if at + 1 < len(here):
        gap = name.first.gap
        drop_all(name.first, here[at + 1].first.before)
        here[at + 1].first.gap = gap
    else:
        last = name.last if name.kind == "lambda" else name.end
        after = last.after
        gap = after.gap
        drop_all(name.first.before, last)
        after.gap = gap
    return True


def _pure(first: Token, last: Token) -> bool:
    for token in tokens_from(first, last):
        if token.text in ASSIGNS and not (token is first and token.text == "="):
            return False
        if token.text in ("++", "--"):
            return False
        if token.kind == "name" and token.after.text == "(" and token is not last and not _PURE.fullmatch(token.text) \
                and token.text not in ("return",) and not token.text.endswith("index_t"):
            return False
    return True


def _parameter(name: Name, function: Name, names: Names) -> bool:
    if function.token.text.startswith("wc_"):            # a primitive: the CPU device has its own of that form
        return False
    if sum(other.uses is function.uses for other in names.all if other.kind == "function") > 1:
        return False
    index = [other for other in function.parameters].index(name)
    calls = []
    for use in function.read:
        opening = use.after
        while opening.text != "(" and opening.text in ("<", ">", "true", "false"):
            opening = opening.after
        if opening.text != "(":
            return False
        arguments = _arguments(opening)
        if len(arguments) != len(function.parameters) or not _pure(*arguments[index]):
            return False
        calls.append(arguments)
    _drop_item([(p.first, p.last) for p in function.parameters], index)
    function.parameters.remove(name)
    for arguments in calls:
        _drop_item(arguments, index)
    return True


def _arguments(opening: Token) -> list[tuple[Token, Token]]:
    closing, found, first, token = opening.matching(), [], opening.after, opening.after
    if first is closing:
        return []
    while token is not closing:
        if token.text == ",":
            found.append((first, token.before))
            first = token.after
        token = token.matching().after if token.text in ("(", "[", "{") else token.after
    return [*found, (first, closing.before)]


def _drop_item(items: list[tuple[Token, Token]], index: int) -> None:
    first, last = items[index]
    if index:
        after = last.after
        gap = after.gap
        drop_all(first.before, last)
        after.gap = gap
    elif len(items) > 1:
        following = items[1][0]
        gap = first.gap
        drop_all(first, following.before)
        following.gap = gap
    else:
        after = last.after
        drop_all(first, last)
        after.gap = ""
