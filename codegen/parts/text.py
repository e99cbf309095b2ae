"""How long a text may be: beyond it compilers take minutes, spill, or give up."""

from __future__ import annotations

MOST_BYTES = 256_000
MOST_UNROLLED = 512     # operations of a loop over a filter's columns that compilers are told to unroll


def text_refusal(operations: int, bytes_each: int, what: str, beside: int = 0) -> str | None:
    """Why a text with so many unrolled operations, of about ``bytes_each`` in the text, and ``beside`` bytes that grow
    with the layer, too, is not made; or None. What else stands in a text has a twentieth of the limit."""
    most = max(0, MOST_BYTES * 19 // 20 - beside) // bytes_each
    return f"{operations} {what} in the text (at most {most})" if operations > most else None
