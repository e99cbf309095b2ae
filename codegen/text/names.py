"""Who declares what in emitted text, and where it is read: one walk over the tokens with a stack of scopes."""

from __future__ import annotations

from dataclasses import dataclass, field

from .tokens import OPENING, Token, tokens_from

TYPES = frozenset({"void", "bool", "char", "short", "int", "long", "unsigned", "float", "double", "auto", "signed",
                   *(f"{base}{n}" for base in ("int", "uint", "float") for n in (2, 3, 4))})
QUALIFIERS = frozenset({"const", "constexpr", "static", "extern", "volatile", "__shared__", "__constant__",
                        "__device__", "__global__", "__forceinline__", "__restrict__", "__align__"})
ASSIGNS = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
_STARTS = frozenset({";", "{", "}", ")", ":", "else", ""})


@dataclass(eq=False)
class Name:
    """A declaration: ``first`` to ``last`` are its tokens (of a declarator, without type and comma)."""

    kind: str                   # constant, variable, function, lambda, parameter, type, template
    token: Token
    first: Token
    last: Token
    statement: Statement | None = None
    owner: Name | None = None   # of a parameter: its function
    uses: list[Token] = field(default_factory=list)
    parameters: list[Name] = field(default_factory=list)

    @property
    def end(self) -> Token:
        """The last token of a variable's declarator, as it is now."""
        token = self.token
        while token.after.text not in (",", ";", ":"):
            token = token.after.matching() if token.after.text in OPENING else token.after
            if token.after.text == "?":
                while token.after.text not in (",", ";"):
                    token = token.after.matching() if token.after.text in OPENING else token.after
        return token

    @property
    def read(self) -> list[Token]:
        return [token for token in self.uses if token.alive]


@dataclass(eq=False)
class Statement:
    """What declares some names at once."""

    first: Token
    names: list[Name] = field(default_factory=list)
    last: Token | None = None
    constant: bool = False


class Names:
    """All names of a text that it declares itself."""

    def __init__(self, first: Token):
        self.all: list[Name] = []
        self._scopes: list[dict[str, Name]] = [{}]
        self._coming: list[Name] = []           # what the next body knows besides
        self._types = set(TYPES)
        self.wide: dict[str, str] = {}          # names of the types of offsets, in any scope
        self._members, self._member = [False], False        # whether a scope is a struct's; whether the next one is
        token = first
        while token.after is not token:
            token = self._read(token)

    def _declare(self, name: Name) -> Name:
        self.all.append(name)
        scope = self._scopes[-1]
        if name.kind == "function" and name.token.text in scope:       # overloads have their uses together
            name.uses = scope[name.token.text].uses
        scope[name.token.text] = name
        return name

    def _use(self, token: Token) -> None:
        if token.before.text in (".", "->"):
            return
        for scope in reversed(self._scopes):
            if token.text in scope:
                scope[token.text].uses.append(token)
                return

    def _read(self, token: Token) -> Token:
        text = token.text
        if token.kind == "pragma":
            for word in text.split()[1:]:
                for scope in reversed(self._scopes):
                    if word in scope:
                        scope[word].uses.append(token)
                        break
        elif text == "{":
            self._scopes.append({name.token.text: name for name in self._coming})
            self._members.append(self._member)
            self._coming, self._member = [], False
        elif text == "}":
            self._scopes.pop()
            self._members.pop()
        elif token.kind == "name":
            if text == "struct":
                return self._struct(token)
            if text == "using":
                self._types.add(token.after.text)
                end = _until(token, ";")
                self._declare(Name("type", token.after, token, end))
                for inner in tokens_from(token.after.after.after, end):
                    if inner.kind == "name":
                        self._use(inner)
                return end
            if text == "template":
                end = _until(token, ">")
                if end.after.text == "struct":
                    self._types.add(end.after.after.text)
                    return self._body(end.after.after)
                name = end.before
                self._coming = [Name("template", name, token, name)]
                self.all.append(self._coming[0])
                return end.after
            before = token.before
            if before.text in _STARTS or before.kind in ("pragma", "end", "string") or (
                    before.text == "(" and before.before.text == "for") or self._coming:
                after = self._declaration(token)
                if after is not None:
                    return after
            if token.alive:
                self._use(token)
        elif text == "[" and token.after.text == "&" and token.after.after.text == "]":
            self._parameters(token.after.after.after, None)
            return token.after.after.after.matching().after
        return token.after

    def _struct(self, token: Token) -> Token:
        name = token.after
        self._types.add(name.text)
        self._declare(Name("type", name, token, name.after.matching().after))
        return self._body(name)

    def _body(self, name: Token) -> Token:
        """Up to the body of a struct, whose members are kept; of one that is only named, up to its end."""
        while name.text not in ("{", ";"):
            name = name.after
        self._member = name.text == "{"
        return name

    def _declaration(self, token: Token) -> Token | None:
        """Reads a declaration, if there is one, up to the first initialiser's end or a function's body."""
        start, kernel, constant, fixed = token, False, False, False
        while token.text in QUALIFIERS or token.text == "__launch_bounds__":
            kernel |= token.text == "__global__"
            constant |= token.text == "constexpr"
            fixed |= token.text in ("const", "constexpr")
            token = token.after
            if token.text == "(":
                end = token.matching()
                for inner in tokens_from(token, end):
                    if inner.kind == "name":
                        self._use(inner)
                token = end.after
        if token.text not in self._types:
            return None
        while token.text in self._types or token.text in ("const", "__restrict__"):
            if token.text in self._types:
                self._use(token)
            token = token.after
        declarator = token
        pointer = False
        while token.text in ("*", "&", "const", "__restrict__"):
            pointer |= token.text == "*"
            token = token.after
        if token.text == "__launch_bounds__":
            return token
        if token.kind != "name" or token.after.text not in ("=", ";", ",", "[", "(", ":"):
            return None
        if token.after.text == "(" and (len(self._scopes) == 1 or self._members[-1]):
            kind = "member" if self._members[-1] else "kernel" if kernel else "function"
            name = Name(kind, token, self._coming[0].first if self._coming else start, token)
            end = token.after.matching()
            for parameter in self._coming:
                parameter.owner = name
            self._declare(name)
            self._parameters(token.after, name)
            name.last = end.after.matching() if end.after.text == "{" else end
            return end.after
        wide = "" if pointer else _wide(start, token.before)
        if wide:
            self.wide[token.text] = wide
        statement = Statement(start, constant=fixed and not pointer and not wide and not self._members[-1])
        kind = "member" if self._members[-1] else "constant" if constant else "variable"
        return self._declarators(statement, declarator, token, kind)

    def _declarators(self, statement: Statement, first: Token, token: Token, kind: str) -> Token:
        while True:
            name = Name(kind, token, first, token, statement)
            statement.names.append(name)
            end, choices = token.after, 0
            inner: list[Token] = []
            while choices or end.text not in (",", ";", ":"):
                assert end.kind != "end", f"a declaration without an end: {token.text}"
                if end.text == "?":
                    choices += 1
                elif end.text == ":":
                    choices -= 1
                elif end.text == "[" and end.after.text == "&" and end.before.text == "=":
                    name.kind = "lambda"
                    self._declare(name)
                    parameters = end.after.after.after
                    self._parameters(parameters, name)
                    body = parameters.matching().after
                    while body.text != "{":
                        body = body.matching() if body.text == "(" else body
                        body = body.after
                    name.last = body.matching()
                    statement.last = name.last.after
                    return body
                if end.text in OPENING:
                    close = end.matching()
                    inner += [t for t in tokens_from(end, close) if t.kind == "name"]
                    end = close
                elif end.kind == "name":
                    inner.append(end)
                name.last = end
                end = end.after
            for use in inner:
                self._use(use)
            self._declare(name)
            if end.text != ",":
                statement.last = end
                return end
            first = token = end.after
            while token.text in ("*", "&", "const", "__restrict__"):
                token = token.after

    def _parameters(self, opening: Token, owner: Name | None) -> None:
        close, token, last, first = opening.matching(), opening.after, None, opening.after
        while token is not close.after:
            if token.text == "(" and token.after.text == "&":       # a reference to an array
                last = token.after.after
                token = token.matching().after
                continue
            if token.text == "[":
                end = token.matching()
                for inner in tokens_from(token, end):
                    if inner.kind == "name":
                        self._use(inner)
                token = end.after
                continue
            if token.text == "," or token is close:
                if last is not None:
                    parameter = Name("parameter", last, first, token.before, owner=owner)
                    if wide := _wide(first, token.before):
                        self.wide[last.text] = wide
                    self.all.append(parameter)
                    self._coming.append(parameter)
                    if owner is not None:
                        owner.parameters.append(parameter)
                last, first = None, token.after
            elif token.text in self._types:
                self._use(token)
            elif token.kind == "name" and token.text not in QUALIFIERS:
                last = token
            token = token.after


def _wide(first: Token, last: Token) -> str:
    """The type of offsets that a declaration names; empty for others, and for pointers."""
    texts = [token.text for token in tokens_from(first, last)]
    return "" if "*" in texts else next((text for text in texts if text in ("index_t", "long")), "")


def _until(token: Token, text: str) -> Token:
    while token.text != text:
        token = token.after
    return token
