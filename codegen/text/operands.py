"""Where the factors of a product begin and end: signs, casts, calls and subscripts belong to them."""

from __future__ import annotations

from .names import TYPES
from .tokens import Token, tokens_from

MULTIPLIES = frozenset("*/%")


def is_operand(token: Token) -> bool:
    """Whether a token ends a factor."""
    return token.kind in ("name", "number") and token.text != "return" and token.text not in TYPES \
        or token.text in (")", "]")


def binds(token: Token) -> bool:
    """Whether what stands before a factor takes it alone."""
    return token.text in ("*", "/", "%", "-", "&", "~", "!") and not (token.text == "-" and is_operand(token.before))


def called(opening: Token) -> bool:
    """Whether a bracket holds a call's arguments or a subscript."""
    before = opening.before
    return before.kind == "name" and before.text != "return" or before.text in ("]", ">") \
        or before.text == ")" and not cast(before)


def cast(closing: Token) -> bool:
    """Whether a closing bracket is the end of a cast."""
    if closing.text != ")":
        return False
    opening = closing.matching()
    inner = list(tokens_from(opening.after, closing.before))
    return inner[0].kind == "name" and not called(opening) and all(
        t.text in TYPES or t.text in ("const", "*") or t.text == "index_t" for t in inner)


def operand_start(token: Token) -> Token:
    """The first token of the factor that ends with one."""
    while True:
        if token.text in (")", "]"):
            token = token.matching()
            if token.before.kind == "name" and token.before.text != "return" or token.before.text in (")", "]"):
                if not cast(token.before):
                    token = token.before
                    continue
        if token.before.text in (".", "->"):
            token = token.before.before
            continue
        break
    while True:
        if cast(token.before):
            token = token.before.matching()
        elif token.before.text in ("-", "!", "~", "*", "&") and not is_operand(token.before.before):
            token = token.before
        else:
            return token


def operand_end(token: Token) -> Token:
    """The last token of the factor that begins with one."""
    while token.text in ("-", "!", "~", "*", "&") or (token.text == "(" and cast(token.matching())):
        token = token.matching().after if token.text == "(" else token.after
    if token.text == "(":
        token = token.matching()
    while token.after.text in ("(", "[", ".", "->"):
        token = token.after.matching() if token.after.text in "([" else token.after.after
    return token


def product(mark: Token) -> Token:
    """The first token of the product that ends before a mark."""
    token = operand_start(mark.before)
    while token.before.text in MULTIPLIES and is_operand(token.before.before):
        token = operand_start(token.before.before)
    return token
