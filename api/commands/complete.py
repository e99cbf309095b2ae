"""What a shell completes (Click's ``_WARPCONV_COMPLETE``): names that the registries have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

_Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _of(names: Callable[[], Iterable[str]]) -> _Complete:
    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in names() if name.startswith(incomplete)]

    return complete


def _algorithms() -> list[str]:
    from warpconv.codegen.registry import ALGORITHMS
    return ["auto", *ALGORITHMS]


def _types() -> list[str]:
    from warpconv.codegen.dtypes import DType
    return [dtype.value for dtype in DType]


def _borders() -> list[str]:
    from warpconv.codegen.border import Border
    return [border.value for border in Border]


def _named_borders() -> list[str]:
    """Those of ``filter``, which takes libraries' names too."""
    from warpconv.codegen.border import NAMES
    return [*_borders(), *(f"{library}:{name}" for library, names in NAMES.items() for name in names)]


def _filters() -> list[str]:
    from warpconv.filters import names
    return list(names())


complete_algorithm = _of(_algorithms)
complete_type = _of(_types)
complete_border = _of(_borders)
complete_named_border = _of(_named_borders)
complete_layout = _of(lambda: ["NCHW", "NHWC"])
complete_device = _of(lambda: ["auto", "cpu", "cuda"])


def complete_layers(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    """Layers files that come with warpconv, and the user's files."""
    from warpconv.runtime.layers import shipped
    names = [CompletionItem(name) for name in shipped() if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]
