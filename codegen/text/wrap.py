"""Lines of at most ``LONGEST`` columns: a comment beside a long statement goes above it, statements side by side go
below one another, and a long one is broken where it binds least. A primitive, which holds inline assembly, stays on
its line.
"""

from __future__ import annotations

import re
import textwrap

LONGEST = 120
_PRIMITIVE = re.compile(r"\basm\b|^__device__ __forceinline__ [\w *]+ wc_\w+\(")
_COMMENTS = re.compile(r"^( *)// .*\n(?:\1// .*\n)*", re.MULTILINE)
_SIGNATURE = re.compile(r"^(?:__device__ |\w+\(const )[^;{]*\{$", re.MULTILINE)
_PIECE = re.compile(r"\w+|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\s+|.")
# how loosely what stands at a break binds, the loosest first; breaks come after a comma or semicolon, else before it
_LOOSE = {";": 0, ",": 1, "=": 9, "?": 2, ":": 2, "||": 3, "&&": 4, "|": 5, "==": 5, "!=": 5, "<": 5, ">": 5, "<=": 5,
          ">=": 5, "+": 6, "-": 6, "*": 7, "/": 7, "%": 7}


def wrap(text: str) -> str:
    """The text with every line but a primitive's broken at ``LONGEST``."""
    text = _SIGNATURE.sub(lambda match: re.sub(r",\n *", ", ", match[0]), text)
    return _lines(_COMMENTS.sub(_filled, text))


def _filled(match: re.Match[str]) -> str:
    """Lines of comment, filled anew where one of them is too long."""
    lines = match[0].splitlines()
    if max(map(len, lines)) <= LONGEST:
        return match[0]
    return _comment(match[1], " ".join(line.strip().removeprefix("//").strip() for line in lines))


def _lines(text: str) -> str:
    return "".join(line if len(line) <= LONGEST + 1 or _PRIMITIVE.search(line) or line.startswith("#")
                   else _wrapped(line.rstrip("\n")) for line in text.splitlines(keepends=True))


def _wrapped(line: str) -> str:
    indent = " " * (len(line) - len(line.lstrip()))
    code, slashes, comment = line.partition("//")
    if not code.strip():
        return _comment(indent, comment)
    if slashes:
        return _comment(indent, comment) + _lines(code.rstrip() + "\n")
    body = re.fullmatch(r"( *\S.*\)(?: const)? \{) (.*) (\};?)", code.rstrip())
    if body:
        return _lines(f"{body[1]}\n{indent}    {body[2]}\n{indent}{body[3]}\n")
    if code.rstrip().endswith("{"):
        return _broken(code, indent, indent + " " * 8)
    statements = _statements(code.strip())
    lines = [indent + statements[0]]
    for statement in statements[1:]:
        if len(lines[-1]) + 1 + len(statement) <= LONGEST:
            lines[-1] += " " + statement
        else:
            lines.append(indent + statement)
    return "".join(_broken(part, indent, indent + " " * 4) for part in lines)


def _comment(indent: str, comment: str) -> str:
    return textwrap.fill(comment.strip(), LONGEST, initial_indent=f"{indent}// ", subsequent_indent=f"{indent}// ",
                         break_long_words=False, break_on_hyphens=False) + "\n"


def _statements(code: str) -> list[str]:
    """Statements side by side, apart; a body in braces stays with its head."""
    found, depth, start = [], 0, 0
    for at, mark in enumerate(code):
        depth += (mark in "([{") - (mark in ")]}")
        if mark == ";" and not depth and code[start:at].strip():
            found.append(code[start:at + 1].strip())
            start = at + 1
    rest = code[start:].strip()
    return [*found, rest] if rest else found


def _broken(line: str, indent: str, further: str) -> str:
    """A statement over several lines; those after the first begin with ``further``."""
    pieces = [(match.start(), match.group()) for match in _PIECE.finditer(line)]
    breaks, depth, before = [], 0, ""
    for at, piece in pieces:
        if piece in "([{":
            depth += 1
        elif piece in ")]}":
            depth -= 1
        elif piece in (",", ";"):
            breaks.append((depth, _LOOSE[piece], at + 1))
        elif piece in _LOOSE and before.isspace() and line[at + len(piece):at + len(piece) + 1] == " ":
            breaks.append((depth, _LOOSE[piece], at + len(piece) + 1 if piece == "=" else at))
        before = piece
    lines, start, lead = [], len(indent), indent
    while len(lead) + len(line) - start > LONGEST:
        limit = start + LONGEST - len(lead)
        fitting = [(depth, loose, -at) for depth, loose, at in breaks if start < at <= limit and line[at:].strip()]
        if not fitting:
            break
        at = -min(fitting)[2]
        lines.append(lead + line[start:at].strip())
        start, lead = at, further
    return "\n".join([*lines, lead + line[start:].strip()]) + "\n"
