"""Filter: a weight prepared once for a kernel, and what it shares with the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from warpconv.codegen.errors import ArgumentTypeError

if TYPE_CHECKING:
    from .kernel import Kernel


class Prepared(Protocol):
    """What a backend keeps of a filter: device memory that stands in the weight's place, a constant bank, or both."""


class Shared:
    """What nothing changes once it is made: copies are the object itself. Pickles are refused: it is code or memory of
    a device of this process. ``AGAIN``: how to have it where a pickle would be loaded."""

    AGAIN = ("pickle the ConvShape, and call specialize() (and prepare()) where it is loaded; packs carry compiled "
             "kernels")

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        name = type(self).__name__
        raise ArgumentTypeError(f"a {name} belongs to one device of this process, and is not pickled", argument=name,
                                hint=self.AGAIN)


class Filter(Shared):
    """A weight prepared for one kernel; owns its copies, so the array it was made from may change or go.

    ``separable``: where the weight is a column times a row, that in words, and ``factored`` is the Filter of these
    factors, whose kernel the calls use as far as it takes their arrays; else both are None.
    """

    def __init__(self, kernel: Kernel, prepared: Prepared, shape: tuple[int, ...]):
        self.kernel = kernel
        self.shape = shape
        self.separable: str | None = None
        self.factored: Filter | None = None
        self.prepared = prepared

    def __repr__(self) -> str:
        by = f", by {self.factored.kernel.spec.name}" if self.factored is not None else ""
        factors = f"; separable: {self.separable}{by}" if self.separable else ""
        return f"<warpconv.Filter {self.shape} for {self.kernel.spec.name} on {self.kernel.device}{factors}>"
