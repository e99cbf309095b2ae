"""Constants that are 0, 1, false or true go into the expressions that they stand in, as a reader would write those.

``z * PLANES`` with one plane is ``z``; ``warp % 1`` is 0; a branch that is never taken is not in the text. Whole
numbers alone are folded: a float that is multiplied by one or added to zero stays as the template has it. What is left
has the type that it had: a 0 that takes the place of an offset is an offset.
"""

from __future__ import annotations

from .names import Name, Names
from .operands import MULTIPLIES, binds, called, cast, is_operand, operand_end, operand_start, product
from .tokens import CLOSING, OPENING, Token, drop_all, drop_lines, tokens_from

_BEGINS = frozenset({"(", "[", "{", "=", ",", ";", "?", ":", "return", "", "+=", "-="})
_ENDS = frozenset({")", "]", "}", ",", ";", "?", ":"})
_VALUES = {"0": 0, "1": 1, "false": False, "true": True}


def fold(first: Token, names: Names) -> None:
    """Folds what is known of the start, and what becomes known by it."""
    folding = _Folding(names)
    work = [token for token in tokens_from(first) if token.text in _VALUES] + list(folding.known)
    while work := work + folding.learned():
        while work:
            token = work.pop()
            if token.alive:
                work += folding.at(token)


def _value(name: Name) -> int | bool | None:
    """What a constant is known to be."""
    statement = name.statement
    if statement is None or not statement.constant or not name.token.alive or name.token.after.text != "=":
        return None
    literal = name.token.after.after
    return _VALUES.get(literal.text) if literal.after.text in (",", ";") and literal.kind != "string" else None


class _Folding:
    """What is known where, and what to write there instead."""

    def __init__(self, names: Names):
        self._names, self._said = names, set[Name]()
        self.known: dict[Token, int | bool] = {}
        self._one_instance()

    def _one_instance(self) -> None:
        """A template over a truth value that is called with one of them only becomes a plain function."""
        for template in self._names.all:
            if template.kind != "template" or template.owner is None:
                continue
            function = template.owner
            calls = [use for use in function.read if use.after.text == "<"]
            values = {use.after.after.text for use in calls}
            if len(values) != 1 or not values <= {"true", "false"}:
                continue
            value = _VALUES[values.pop()]
            function.first = template.last.after.after
            gap = template.first.gap
            drop_all(template.first, template.last.after)
            function.first.gap = gap
            for use in calls:
                drop_all(use.after, use.after.after.after)
            self.known.update(dict.fromkeys(template.read, value))

    def learned(self) -> list[Token]:
        """Where names stand that have become known since the last call."""
        fresh: list[Token] = []
        for name in self._names.all:
            value = _value(name)
            if value is not None and name not in self._said:
                self._said.add(name)
                uses = [use for use in name.read if use.kind == "name"]
                self.known.update(dict.fromkeys(uses, value))
                fresh += uses
        return fresh

    def at(self, token: Token) -> list[Token]:
        """Folds around one token; what is worth another look."""
        value = self._number(token)
        if value is None:
            return []
        if isinstance(value, bool):
            return _truth(token, value)
        return (_one(token, self) if value == 1 else _nothing(token, self)) or self._sum(token) or _bare(token)

    def _number(self, token: Token) -> int | bool | None:
        if token in self.known:
            return self.known[token]
        return _VALUES.get(token.text) if token.kind in ("number", "name") else None

    def _sum(self, token: Token) -> list[Token]:
        """Two whole numbers beside one another, one of them known by its name or both written."""
        for left, mark, right in ((token, token.after, token.after.after), (token.before.before, token.before, token)):
            if mark.text not in ("+", "-") or mark.kind != "mark":
                continue
            a, b = (int(t.text) if t.text.isdigit() else self._number(t) for t in (left, right))
            if a is None or b is None or left.before.text in ("-", "*", "/", "%", "<<", ">>", "~") \
                    or cast(left.before) or right.after.text in MULTIPLIES:
                continue
            total = a - b if mark.text == "-" else a + b
            if total >= 0:
                return [_becomes(left, right, str(total))]
        return []

    def zero(self, first: Token, last: Token) -> list[Token]:
        """Nothing in place of a product; of offsets' type where a factor is."""
        kinds = {token.text if token.text in ("long", "index_t") else self._names.wide.get(token.text)
                 for token in tokens_from(first, last)}
        zero = _becomes(first, last, "0")
        if "long" in kinds:
            _put_cast(zero, "long long")
        elif "index_t" in kinds:
            _put_cast(zero, "index_t")
        return [zero, zero.before, zero.after]


def _converted(first: Token, last: Token) -> bool:
    """Whether a value takes another type where it stands, whatever its own is."""
    before, after = first.before, last.after
    if before.text == "(" and after.text == ")" and cast(before.before):
        return True
    while before.text == "+":
        before = product(before).before
    return before.text == "=" and after.text in (",", ";")


def _put_cast(token: Token, kind: str) -> None:
    for text in ("(", *kind.split(), ")"):
        gap = token.gap if text == "(" else " " if token.before.text == text else ""
        new = Token("mark" if text in "()" else "name", text, gap, token.before)
        new.after = token
        token.before.after = token.before = new
    token.gap = ""


def _one(token: Token, folding: _Folding) -> list[Token]:
    before, after = token.before, token.after
    if before.text in ("*", "/") and is_operand(before.before):
        before.drop()
        token.drop()
        return _about(before.before)
    if before.text == "%" and is_operand(before.before):
        return folding.zero(product(before), token)
    if after.text == "*" and not binds(before) and after.after.text not in (")", ">", ","):
        after.after.gap = token.gap
        token.drop()
        after.drop()
        return _about(after.after)
    return []


def _nothing(token: Token, folding: _Folding) -> list[Token]:
    before, after, start = token.before, token.after, token
    if (after.text == "!=" and after.after.text == "0" and before.text in ("(", "||", "&&", "=")
            and after.after.after.text in (")", "||", "&&", ";", ",")):
        return [_becomes(token, after.after, "false")]
    while cast(start.before):
        start = start.before.matching()
    if start is not token:
        outer = start.before
        if outer.text == "(" and after.text == ")" and not called(outer) and not cast(outer.before):
            start.gap = outer.gap
            outer.drop()
            after.drop()
            return [token]
        if _converted(start, token):
            token.gap = start.gap
            drop_all(start, token.before)
            return [token]
    if before.text in MULTIPLIES and is_operand(before.before):
        return folding.zero(product(before), token)
    if after.text in MULTIPLIES and before.text not in MULTIPLIES and after.after.text not in (")", ">", ","):
        return folding.zero(start, operand_end(after.after))
    if before.text in ("+", "-") and is_operand(before.before) and after.text not in MULTIPLIES:
        before.drop()
        token.drop()
        return _about(before.before)
    if after.text == "+" and before.text not in ("*", "/", "%", "-", "+", "<<", ">>", "~", "!"):
        after.after.gap = token.gap             # what a cast before it was for is now for what comes after
        token.drop()
        after.drop()
        return _about(after.after)
    return []


def _bare(token: Token) -> list[Token]:
    """A number or a name in brackets of its own, or a number that is converted to what it is."""
    before, after = token.before, token.after
    if cast(before) and token.text == "0" and before.before.text == "int":
        opening = before.matching()
        token.gap = opening.gap
        drop_all(opening, before)
        return [token]
    if before.text == "(" and after.text == ")" and not called(before):
        token.gap = before.gap
        before.drop()
        after.drop()
        return [token]
    return []


def _about(token: Token) -> list[Token]:
    """After an operator went: brackets that now hold one operand, or stand where none are needed."""
    while True:
        start = operand_start(token)
        end = operand_end(start)
        opening = start if start.text == "(" and not cast(start.matching()) else start.before
        if opening.text != "(" and end.after.text == ")":
            opening = end.after.matching()
        if opening.text != "(" or opening.kind != "mark" or called(opening):
            break
        closing = opening.matching()
        single = end.after is closing and opening.after is start and start.text not in ("-", "!", "*", "&", "~") \
            and not (closing.after.text in ("[", ".", "->") and start.text == "(" and cast(start.matching()))
        needless = opening.before.text in ("=", "(", ",", "return", "[") \
            and closing.after.text in (";", ")", ",", "]") \
            and not any(inner.text == "," for inner in tokens_from(opening.after, closing.before))
        if cast(closing) or not (single or needless):
            break
        opening.after.gap = opening.gap
        token = opening.after
        opening.drop()
        closing.drop()
    return [token.before, token, token.after]


def _truth(token: Token, value: bool) -> list[Token]:
    before, after = token.before, token.after
    if before.text == "!":
        return [_becomes(before, token, "false" if value else "true")]
    if before.text == "(" and after.text == ")" and before.before.text == "if":
        return _branch(before.before, after, value)
    if after.text == "?" and (before.text in _BEGINS):
        return _choice(token, value)
    if after.text in ("||", "&&") and (before.text in _BEGINS or before.text == "&&" == after.text):
        if value == (after.text == "&&"):
            after.after.gap = token.gap
            token.drop()
            after.drop()
            return _about(after.after)
        end = after
        while end.after.text not in _ENDS and not (end.after.text == "||" and after.text == "&&"):
            end = end.after.matching() if end.after.text in "([" else end.after
        return [_becomes(token, end, token.text if token.text in _VALUES else str(value).lower())]
    if before.text in ("||", "&&") and after.text not in ("&&", "=="):
        if value == (before.text == "&&"):
            before.drop()
            token.drop()
            return _about(before.before)
        start = before
        while start.before.text not in _BEGINS and not (start.before.text == "||" and before.text == "&&"):
            start = start.before.matching() if start.before.text in ")]" else start.before
        if start.before.text == "(" or start.before.text in ("=", "return", ","):
            return [_becomes(start, token, str(value).lower())]
    return _bare(token)


def _choice(token: Token, value: bool) -> list[Token]:
    """``true ? a : b``"""
    mark, depth, middle = token.after, 1, token.after.after
    while True:
        if middle.text == "?":
            depth += 1
        elif middle.text == ":":
            depth -= 1
            if not depth:
                break
        middle = middle.matching().after if middle.text in "([{" else middle.after
    end = middle
    while end.after.text not in (")", "]", "}", ",", ";", ":"):
        end = end.after.matching() if end.after.text in "([{" else end.after
    kept = mark.after if value else middle.after
    kept.gap = token.gap
    if value:
        drop_all(middle, end)
        drop_all(token, mark)
    else:
        drop_all(token, middle)
    return [kept, *_about(kept)]


def _branch(start: Token, closing: Token, value: bool) -> list[Token]:
    """``if (true) ... else ...``"""
    first = closing.after
    last = first.matching() if first.text == "{" else _statement_end(first)
    other = last.after if last.after.text == "else" else None
    begin, end = start, last
    kept: tuple[Token, Token] | None = (first, last) if value else None
    if other is not None:
        end = other.after.matching() if other.after.text == "{" else _statement_end(other.after)
        if not value:
            kept = (other.after, end)
    gap, after = begin.gap, end.after
    if kept is None:
        drop_lines(begin, end)
        return []
    inside = kept
    if kept[0].text == "{" and not _declares_again(*kept):
        inside = (kept[0].after, kept[1].before)
    inside_gap = inside[0].gap
    shift = len(inside_gap.rsplit("\n", 1)[-1]) - len(gap.rsplit("\n", 1)[-1]) if "\n" in inside_gap else 0
    after_gap = after.gap
    for token in tokens_from(*inside):
        token.gap = token.gap.replace("\n" + " " * shift, "\n")
    keep = set(tokens_from(*inside))
    for token in list(tokens_from(begin, end)):
        if token not in keep:
            token.alive = False
            token.before.after, token.after.before = token.after, token.before
    inside[0].gap, after.gap = gap, after_gap
    return []


def _declares_again(opening: Token, closing: Token) -> bool:
    """Whether a block declares a name that stands elsewhere in the block around it, too: then it stays one."""
    around, depth = opening.before, 0
    while around.before is not around and (depth or around.text != "{"):
        depth += (around.text in CLOSING) - (around.text in OPENING)
        around = around.before
    declared, depth = set(), 0
    for token in tokens_from(opening.after, closing.before):
        depth += (token.text in OPENING) - (token.text in CLOSING)
        named = token.kind == "name" and token.before.kind == "name"
        if named and not depth and token.after.text in ("=", ";", "[", ","):
            declared.add(token.text)
    own = set(tokens_from(opening, closing))
    rest = tokens_from(around.after, around.matching()) if around.text == "{" else ()
    return any(token.text in declared for token in rest if token not in own)


def _statement_end(token: Token) -> Token:
    if token.text in ("if", "for", "while"):
        token = token.after.matching().after
        return _statement_end(token)
    while token.text != ";":
        token = token.matching() if token.text in "([{" else token
        if token.text == "}" and token.after.text != ";":
            return token
        token = token.after
    return token


def _becomes(first: Token, last: Token, text: str) -> Token:
    """A literal in place of some tokens."""
    gap = first.gap
    for token in list(tokens_from(first, last))[1:]:
        token.drop()
    new = Token("number" if text.isdigit() else "name", text, gap, first.before)
    new.after = first.after
    first.before.after = new
    first.after.before = new
    first.alive = False
    return new
