"""A reader of emitted text: what it declares and does not use, factors that are one, idle terms, long lines.

It knows the part of C++ that the templates write, in one pass over tokens with a stack of scopes; no compiler is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

LONGEST_LINE = 140
_TOKEN = re.compile(r"""(?P<skip>//[^\n]*|[ \t]+|\\\n)|(?P<line>\n)|(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFuUlL]*)|(?P<name>[A-Za-z_]\w*)
    |(?P<mark><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#|.)""", re.VERBOSE)
_TYPES = {"void", "bool", "char", "short", "int", "long", "unsigned", "float", "double", "auto", "signed",
          *(f"{base}{n}" for base in ("int", "uint", "float", "uchar", "short", "ushort") for n in (1, 2, 3, 4))}
_BEFORE_TYPES = {"const", "constexpr", "static", "extern", "volatile", "__shared__", "__constant__", "__device__",
                 "__global__", "__forceinline__", "__noinline__", "inline"}
_ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
_OPAQUE = {"words"}             # of a descriptor: what the driver encodes, and the device's copies read
_STARTS = {";", "{", "}", ")", "else", ""}


@dataclass
class Token:
    kind: str
    text: str
    line: int


@dataclass
class Name:
    what: str
    text: str
    line: int
    uses: int = 0
    value: str = ""


@dataclass
class _Reader:
    tokens: list[Token]
    scopes: list[dict[str, Name]] = field(default_factory=lambda: [{}])
    closed: list[Name] = field(default_factory=list)
    types: set[str] = field(default_factory=lambda: set(_TYPES))
    members: dict[str, Name] = field(default_factory=dict)
    member_uses: set[str] = field(default_factory=set)
    coming: list[Name] = field(default_factory=list)        # parameters of the body that comes next
    struct: bool = False                                    # whether the scope that comes next is a struct's
    inside: list[bool] = field(default_factory=lambda: [False])


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text without comments and blanks, each with its line."""
    found, line = [], 1
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "line":
            line += 1
        elif kind == "skip":
            line += match.group().count("\n")
        else:
            found.append(Token(kind, match.group(), line))
    return found


def faults(text: str) -> list[str]:
    """What is wrong with a text, in words with line numbers."""
    tokens = tokens_of(text)
    return sorted({*unused(tokens), *idle_terms(tokens), *instances(tokens), *long_lines(text)}, key=_line_of)


def _line_of(fault: str) -> int:
    return int(fault.split(":")[0])


def long_lines(text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > LONGEST_LINE and not re.search(r"\basm\b|__forceinline__ [\w ]+ wc_\w+\(", line):
            yield f"{number}: {len(line)} characters"


def instances(tokens: list[Token]) -> Iterator[str]:
    """Templates over a truth value that have one instance only."""
    texts = [token.text for token in tokens]
    for at, text in enumerate(texts):
        if text == "template" and texts[at + 1:at + 3] == ["<", "bool"] and texts[at + 5] != "struct":
            end = next(i for i in range(at, len(texts)) if texts[i] == "(" and tokens[i - 1].kind == "name")
            name = texts[end - 1]
            for value in ("true", "false"):
                if not any(texts[i:i + 4] == [name, "<", value, ">"] for i in range(len(texts))):
                    yield f"{tokens[at].line}: {name}<{value}> is never called"


def idle_terms(tokens: list[Token]) -> Iterator[str]:
    """Factors that are one and terms that are nothing, written as numbers or as constants of such values."""
    known = {"1": "1", "0": "0"}
    for at, token in enumerate(tokens[:-3]):
        if tokens[at + 1].text == "=" and tokens[at + 2].text in ("0", "1") and tokens[at + 3].text in ",;" \
                and token.kind == "name" and token.text.isupper():
            known[token.text] = tokens[at + 2].text
    for at in range(1, len(tokens) - 1):
        value = known.get(tokens[at].text)
        if value is None:
            continue
        before, after = tokens[at - 1].text, tokens[at + 1].text
        alone = tokens[at - 1].kind == "mark" and before not in ("*", "/", "%")
        said = " ".join(token.text for token in tokens[at - 1:at + 2])
        binary = tokens[at - 2].kind in ("name", "number") or tokens[at - 2].text in (")", "]")
        if before in ("*", "/", "%") and binary or after == "*" and alone and tokens[at + 2].text != ")":
            yield f"{tokens[at].line}: {said} (by {value})"
        elif value == "0" and (before in ("+", "-") and binary and after not in ("*", "/", "%")
                               or after in ("+", "/", "%") and alone and before not in ("+", "-", "<<", ">>")):
            yield f"{tokens[at].line}: {said} (a term of nothing)"


def unused(tokens: list[Token]) -> Iterator[str]:
    """Names that are declared and not read after it."""
    reader = _Reader(tokens)
    at = 0
    while at < len(tokens):
        at = _read(reader, at)
    _close(reader)
    for name in reader.closed:
        if not name.uses:
            yield f"{name.line}: {name.what} {name.text} is not used"
    for text, name in reader.members.items():
        if text not in reader.member_uses and text not in _OPAQUE:
            yield f"{name.line}: member {text} is not used"


def _close(reader: _Reader) -> None:
    reader.closed += reader.scopes.pop().values()


def _declare(reader: _Reader, what: str, token: Token) -> None:
    scope = reader.scopes[-1]
    if reader.inside[-1]:           # a struct's
        reader.members.setdefault(token.text, Name("member", token.text, token.line))
        return
    if token.text in scope and what != "function":
        reader.closed.append(scope[token.text])
    elif token.text in scope:
        return          # an overload, or a declaration before the definition
    scope[token.text] = Name(what, token.text, token.line)


def _use(reader: _Reader, text: str) -> None:
    reader.member_uses.add(text)            # members' names are few: any reading of one is taken for its own
    for scope in reversed(reader.scopes):
        if text in scope:
            scope[text].uses += 1
            return


def _read(reader: _Reader, at: int) -> int:
    """Reads what begins at a token, and returns where the next thing begins."""
    tokens = reader.tokens
    token, before = tokens[at], tokens[at - 1].text if at else ""
    if token.text == "{":
        reader.scopes.append({name.text: name for name in reader.coming})
        reader.inside.append(reader.struct)
        reader.coming, reader.struct = [], False
        return at + 1
    if token.text == "}":
        reader.inside.pop()
        _close(reader)
        return at + 1
    if token.text == "struct":
        reader.types.add(tokens[at + 1].text)
        while tokens[at].text not in ("{", ";"):
            at += 1
        reader.struct = tokens[at].text == "{"
        return at
    if token.text == "using":
        reader.types.add(tokens[at + 1].text)
        _declare(reader, "type", tokens[at + 1])
        return at + 2
    if token.text == "template" and (tokens[at + 2].text == ">" or tokens[at + 5].text == "struct"):
        return at + 3 if tokens[at + 2].text == ">" else at + 5
    if token.text == "template":
        reader.coming.append(Name("template parameter", tokens[at + 3].text, tokens[at + 3].line))
        return at + 5
    if token.text == "[" and tokens[at + 1].text == "&" and tokens[at + 2].text == "]":
        return _parameters(reader, at + 3)
    if before in _STARTS or before == "(" and tokens[at - 2].text == "for" or before in (">", "C", '"C"'):
        declared = _declaration(reader, at)
        if declared:
            return declared
    if token.kind == "name":
        _name(reader, at)
    return at + 1


def _name(reader: _Reader, at: int) -> None:
    tokens = reader.tokens
    before, after = tokens[at - 1].text, tokens[at + 1].text if at + 1 < len(tokens) else ""
    if before in (".", "->"):
        reader.member_uses.add(tokens[at].text)     # written ones count: what is filled so is read as a whole
        return
    written = before in _STARTS and after in _ASSIGN and not _cast(tokens, at - 1) \
        or before in ("++", "--") and after in (";", ")", ",")
    if not written:
        _use(reader, tokens[at].text)


def _cast(tokens: list[Token], at: int) -> bool:
    """Whether a closing bracket is that of a cast, and not of an ``if``."""
    if tokens[at].text != ")":
        return False
    while tokens[at].text != "(":
        at -= 1
    return tokens[at + 1].text in _TYPES or tokens[at + 1].text in _BEFORE_TYPES


def _parameters(reader: _Reader, at: int) -> int:
    """``(...)`` of a definition: its names belong to the body that follows."""
    tokens, depth, last = reader.tokens, 0, None
    while True:
        text = tokens[at].text
        if text in "([":
            depth += 1
        elif text in ")]":
            depth -= 1
        if text in (",", ")") and depth <= 1 and last and (text == "," and depth == 1 or depth == 0):
            reader.coming.append(Name("parameter", last.text, last.line))
            last = None
        elif tokens[at].kind == "name":
            inside = depth > 1 and tokens[at - 1].text != "&"
            if inside or text in reader.types or text in _BEFORE_TYPES or text == "__restrict__":
                _use(reader, text)
            else:
                last = tokens[at]
        at += 1
        if depth == 0:
            return at


def _declaration(reader: _Reader, at: int) -> int:
    """Where a declaration's first initialiser begins, or 0 where there is no declaration."""
    tokens, begin = reader.tokens, at
    while tokens[at].text in _BEFORE_TYPES or tokens[at].text in ("__align__", "__launch_bounds__"):
        at += 1
        if tokens[at].text == "(":
            while tokens[at].text != ")":
                at += 1
                if tokens[at].kind == "name":
                    _use(reader, tokens[at].text)
            at += 1
    if tokens[at].text not in reader.types:
        return 0
    while tokens[at].text in reader.types or tokens[at].text in ("const", "*", "&", "__restrict__"):
        _use(reader, tokens[at].text)
        at += 1
    if tokens[at].text == "__launch_bounds__":
        at += 2
        while tokens[at].text != ")":
            _use(reader, tokens[at].text)
            at += 1
        at += 1
    if tokens[at].kind != "name" or tokens[at + 1].text not in ("=", ";", ",", "[", "("):
        return 0
    if tokens[at + 1].text == "(" and (len(reader.scopes) == 1 or reader.inside[-1]):
        kernel = any(token.text == "__global__" for token in tokens[begin:at])
        if not kernel:
            _declare(reader, "function", tokens[at])
        end = _parameters(reader, at + 1)
        if kernel:
            for name in reader.coming:
                name.uses += 1
        if tokens[end].text == ";":
            reader.coming = []
        return end
    what = "constant" if any(token.text == "constexpr" for token in tokens[begin:at]) else "variable"
    return _declarators(reader, at, what)


def _declarators(reader: _Reader, at: int, what: str) -> int:
    """``a = ..., b[...], c;``: declares each name; what stands in initialisers is read where it stands."""
    tokens, depth = reader.tokens, 0
    waiting = [at]
    while True:
        at = waiting.pop()
        name = tokens[at]
        at += 1
        uses = []
        while depth or tokens[at].text not in (",", ";", ":"):
            if tokens[at].text == "?":
                depth += 1
            elif tokens[at].text == ":" and depth:
                depth -= 1
            elif tokens[at].text in "([":
                if tokens[at].text == "[" and tokens[at + 1].text == "&":
                    _declare(reader, what, name)        # a lambda: its body is read as any other
                    return at
                depth += 1
            elif tokens[at].text in ")]":
                depth -= 1
            elif tokens[at].text == "{":
                depth += 1
            elif tokens[at].text == "}":
                depth -= 1
            elif tokens[at].kind == "name":
                uses.append(at)
            at += 1
        for use in uses:
            _name(reader, use)
        _declare(reader, what, name)
        if tokens[at].text != ",":
            return at
        at += 1
        while tokens[at].text in ("*", "&", "const"):
            at += 1
        waiting.append(at)
