"""What ``channels`` writes about rows and columns outside of the image where the border is not zeros."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType
from warpconv.codegen.spec import KernelSpec


@dataclass(frozen=True)
class ChannelsBorder:
    """A border other than zeros, as the templates write it. Rows outside of the image are walked like any others."""

    reads: bool          # the image's pixels, else one value
    type: str            # C type of BORDER, that value: a float, or a word of two elements
    piece_type: str      # C type of what one copy to shared memory brings
    piece: str           # so much of the value


def border_of(spec: KernelSpec, copy_bytes: int) -> ChannelsBorder:
    """``copy_bytes``: of a copy to shared memory, 4 or more."""
    single = spec.dtype is DType.FLOAT32
    words = copy_bytes // 4
    base = "float" if single else "unsigned" if words <= 1 else "uint"
    piece_type = base if words <= 1 else f"{base}{words}"
    return ChannelsBorder(reads=spec.padding_mode.reads_image, type="float" if single else "unsigned",
                          piece_type=piece_type, piece=made_of("BORDER", piece_type, words))


def made_of(value: str, word_type: str, parts: int) -> str:
    """A word of ``parts`` 32-bit members, or a lone 16-bit element, of nothing but ``value``."""
    if parts > 1:
        return f"make_{word_type}({', '.join([value] * parts)})"
    return f"({word_type}){value}" if word_type == "unsigned short" and value != "0" else value
