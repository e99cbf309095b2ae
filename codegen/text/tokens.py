"""Emitted text as a chain of tokens, each with the blanks and comments before it: what is taken out leaves no gap."""

from __future__ import annotations

import re
from collections.abc import Iterator

# the blanks and comments before a word (none behind the last), then a name, a pragma, a number, a string or a mark
_TOKEN = re.compile(r"""([ \t\n]*(?://[^\n]*[ \t\n]*)*)(?:([A-Za-z_]\w*)|(\#[^\n]*)
    |(0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFuUlL]*)|("(?:[^"\\]|\\.)*")
    |(<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)|\Z)""", re.VERBOSE)
_COLUMN = re.compile(r"^(.*?)\0(\d+)\0//", re.MULTILINE)     # of a comment beside a statement
OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, {")": "(", "]": "[", "}": "{"}


class Token:
    """A word of the text; ``gap`` is what stands before it."""

    __slots__ = ("kind", "text", "gap", "before", "after", "alive")

    def __init__(self, kind: str, text: str, gap: str, before: Token | None):
        self.kind, self.text, self.gap, self.alive = kind, text, gap, True
        self.before: Token = before or self
        self.after: Token = self

    def matching(self) -> Token:
        """The bracket that closes or opens this one."""
        forward = self.text in OPENING
        own, other, depth, token = self.text, (OPENING if forward else CLOSING)[self.text], 1, self
        while depth:
            token = token.after if forward else token.before
            if token.text == own and token.kind == "mark":
                depth += 1
            elif token.text == other and token.kind == "mark":
                depth -= 1
        return token

    def drop(self) -> None:
        """Take this token out; a line break or a comment before it stays."""
        self.alive = False
        self.before.after, self.after.before = self.after, self.before
        if "\n" in self.gap or "//" in self.gap:
            own = self.gap if "\n" not in self.after.gap else self.gap.rstrip(" ").removesuffix("\n")
            self.after.gap = own if own is self.gap else own + self.after.gap


def chain_of(text: str) -> tuple[Token, Token]:
    """The first and the last token of a text; both are empty ones at its ends."""
    first = last = Token("end", "", "", None)
    end = 0
    for gap, name, pragma, number, string, mark in _TOKEN.findall(text):
        kind, word = (("name", name) if name else ("mark", mark) if mark else ("number", number) if number
                      else ("pragma", pragma) if pragma else ("string", string) if string else ("end", ""))
        begin, end = end, end + len(gap) + len(word)
        if gap.startswith("  ") and (rest := gap.lstrip(" ")).startswith("//"):
            line = text.rfind("\n", 0, begin) + 1
            gap = f"\0{begin + len(gap) - len(rest) - line}\0{rest}"
        token = Token(kind, word, gap, last)
        last.after = last = token
        if kind == "end":
            break
    return first, last


def text_of(first: Token) -> str:
    """The text again, comments beside statements in the columns that they had."""
    parts, token = [first.gap, first.text], first
    while token.after is not token:
        token = token.after
        parts += (token.gap, token.text)
    return _COLUMN.sub(_padded, "".join(parts))


def _padded(match: re.Match[str]) -> str:
    return match[1] + " " * max(1, int(match[2]) - len(match[1])) + "//"


def tokens_from(first: Token, last: Token | None = None) -> Iterator[Token]:
    """From a token to another, both included, or to the end."""
    token = first
    while True:
        yield token
        if token is last or token.after is token:
            return
        token = token.after


def drop_all(first: Token, last: Token) -> None:
    for token in list(tokens_from(first, last)):
        token.drop()


def drop_lines(first: Token, last: Token) -> None:
    """Take out whole statements: with the comment after them, and those above unless what follows is theirs too."""
    after, above, below = last.after, first.gap, last.after.gap
    for token in list(tokens_from(first, last)):
        token.drop()
    if "\n" not in above:
        after.gap = below if "\n" in below else above
        return
    if "\n" not in below:
        after.gap = above
        return
    tail, _, own = above.partition("\n")
    _, _, rest = below.partition("\n")
    comments = own[:own.rfind("\n") + 1]
    goes_on = bool(rest.strip(" ") == "" and after.text != "}" and after.kind != "end")
    if not goes_on:
        above_them = comments.rfind("\n\n") + 2 if "\n\n" in comments else comments.startswith("\n")
        kept = comments[:above_them]
        if rest.startswith("\n") and kept.endswith("\n"):
            kept = kept[:-1]
        comments = kept
    after.gap = f"{tail}\n{comments}{rest}"
