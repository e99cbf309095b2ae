"""A layer's weight as its kernels want it, made once and again when it has changed."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from warpconv.runtime import env
from warpconv.runtime.call import conv, signatures
from warpconv.runtime.call.checks import Misaligned
from warpconv.runtime.call.filter import Filter
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.call.quick import Entry
from warpconv.runtime.call.recording import recording
from warpconv.runtime.call.watched import is_transforming, wants_grad

from .trained import trained

MOST_INPUTS = 256       # kinds of input that a layer remembers
_PLAIN = (Tensor, torch.nn.Parameter)


def is_captured(weight: Tensor) -> bool:
    """Whether calls with the weight become part of a CUDA graph."""
    return weight.is_cuda and torch.cuda.is_current_stream_capturing()


class _Made(NamedTuple):
    filter: Filter
    weight: Tensor      # what it was made of: its memory is held, so that no other weight can get its address
    version: int
    trained: int        # gradients of weights that there had been


class Prepared:
    """The kernels that a layer's calls outside of training took, by kind of input, and their filters.

    Only kernels that would reorder or move the weight at every call have a filter; to the others the weight itself is
    given. Any thread may call. ``frozen``: CUDA graphs that are recorded take the filter, too, which ``recorded`` then
    keeps, as replays read it; else they prepare the weight in every replay.
    """

    def __init__(self, frozen: bool = False, recorded: list[Filter] | None = None) -> None:
        self._frozen, self._recorded = frozen, recorded if recorded is not None else []
        self._kernels: dict[tuple[Any, ...], Kernel | None] = {}    # None: nothing to prepare
        self._filters: dict[Kernel, _Made] = {}
        self._entries: dict[Any, Entry] = {}        # calls with the weight as it is, by the tensors' signatures

    @staticmethod
    def serves(input: Any, weight: Tensor | None, bias: Tensor | None) -> bool:
        """Whether a call is nothing but an output of the input's type: no gradient, no cast, no compiler, and no tensor
        of a kind of its own, whose memory may hold something else."""
        return (type(input) is Tensor and type(weight) in _PLAIN and (bias is None or type(bias) in _PLAIN)
                and input.dtype is weight.dtype and not input.is_neg()      # type: ignore[union-attr]
                and not is_transforming(torch) and not wants_grad(torch, input, weight, bias))

    def __call__(self, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
                 groups: int, padding_mode: str, precision: str = "float32") -> Tensor:
        """conv2d. Raises as it does."""
        signed = None if recording.graph is not None else signatures.sign_call(input, weight, bias, None, None)
        entry = None if signed is None else self._entries.get(signed)
        if entry is not None and (made := entry.repeat(input, weight, bias, None, None, None)) is not None:
            return made
        kind = input.shape, input.stride(), input.dtype, input.device, weight.shape, bias is None
        if kind not in self._kernels:
            return self._first(kind, input, weight, bias, stride, padding, dilation, groups, padding_mode, precision)
        kernel = self._kernels.get(kind)
        if kernel is not None and (filter := self._filter(kernel, weight)) is not None:
            try:
                return kernel(input, filter, bias)
            except Misaligned:      # another plan serves this address
                pass
        return conv.conv2d(input, weight, bias, stride, padding, dilation, groups, padding_mode=padding_mode,
                        separable=False, precision=precision)

    def _first(self, kind: tuple[Any, ...], input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any,
               padding: Any, dilation: Any, groups: int, padding_mode: str, precision: str) -> Tensor:
        """A call of a kind that is not known: what it took is remembered for the next. One without an axis of images,
        without images or without memory goes the checked way every time."""
        if input.dim() != 4 or not input.shape[0] or input.is_meta:
            return conv.conv2d(input, weight, bias, stride, padding, dilation, groups, padding_mode=padding_mode,
                            separable=False, precision=precision)
        kernel, output = conv.conv2d_and_kernel(
            input, weight, bias=bias, stride=stride, padding=padding, dilation=dilation, groups=groups,
            padding_mode=padding_mode, padding_value=0.0, epilogue=(), algorithm="auto", layout="NCHW", out_dtype=None,
            cast="nearest", device="auto", out=None, stream=None, separable=False,
            precision=precision)
        preparation = kernel.program.preparation
        wanted = preparation is not None and (preparation.steps or preparation.constant)
        if len(self._kernels) >= MOST_INPUTS:
            self._kernels.clear()
            self._filters.clear()
            self._entries.clear()
        self._kernels[kind] = kernel if wanted else None
        if wanted and self._frozen:         # a graph may be next, in which nothing is prepared
            self._filter(kernel, weight)
        signed = signatures.sign_call(input, weight, bias, None, None)
        entry = None if wanted or signed is None or env.settings().templates is not None else kernel.remembered(signed)
        if entry is not None:
            self._entries[signed] = entry
        return output

    def _filter(self, kernel: Kernel, weight: Tensor) -> Filter | None:
        """The weight as it is now, for a kernel. None where it may change unseen: inside a CUDA graph, whose replays
        write to parameters that are not frozen, where PyTorch counts no versions, and where other processes share its
        memory; and of a frozen one that was not prepared before the graph, in which nothing can be."""
        captured = is_captured(weight)
        if weight.is_inference() or captured and not self._frozen or weight.is_cpu and weight.is_shared():
            return None
        version, count = weight._version, trained.count
        made = self._filters.get(kernel)
        if (made is None or made.version != version or made.weight.data_ptr() != weight.data_ptr()
                or made.weight.stride() != weight.stride()
                or made.trained != count and weight.requires_grad and not self._frozen):
            if captured:
                return None
            filter = kernel.prepare(weight, separable=False)
            made = self._filters[kernel] = _Made(filter, weight.detach(), version, count)
        if captured and not any(kept is made.filter for kept in self._recorded):
            self._recorded.append(made.filter)
        return made.filter
