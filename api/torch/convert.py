"""convert: a model's layers become warpconv's where these are quicker, in place, and back again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, WarpconvError
from warpconv.codegen.hardware import Hardware
from warpconv.codegen.numerics import Precision
from warpconv.codegen.spec import Operation
from warpconv.runtime.devices.cuda import contexts
from warpconv.runtime.torch import ahead
from warpconv.runtime.torch.arguments import DEFAULT, OF_GRADIENTS

from . import estimate, measure, modules, sizes

OURS: dict[type, type] = {
    torch.nn.Conv1d: modules.Conv1d, torch.nn.Conv2d: modules.Conv2d, torch.nn.Conv3d: modules.Conv3d,
    torch.nn.ConvTranspose1d: modules.ConvTranspose1d, torch.nn.ConvTranspose2d: modules.ConvTranspose2d,
    torch.nn.ConvTranspose3d: modules.ConvTranspose3d}
Answer = tuple[bool, str, "float | None", "float | None"]     # whether, why, seconds of ours and of PyTorch's
Rule = Callable[[str, torch.nn.Module, "Tensor | None"], bool]
MEASURED = ("measure", "graph")


@dataclass(frozen=True)
class Row:
    """What became of one layer: its name in the model, what it is, whether it was converted, and why."""

    name: str
    layer: str
    converted: bool
    why: str
    ours: float | None = None       # seconds, where they were estimated or measured
    theirs: float | None = None


@dataclass
class Conversion:
    """What convert did: a table of ``rows`` (``print(conversion)``), and ``undo()``."""

    rows: list[Row]
    _changed: list[tuple[torch.nn.Module, type]] = field(default_factory=list, repr=False)

    def undo(self) -> None:
        """Make the layers PyTorch's again; weights and hooks stay as they are. Raises ArgumentError for those whose
        class is another since (a parametrization makes one of its own), when all others are PyTorch's."""
        others = [(module, kind) for module, kind in self._changed if type(module) not in (kind, OURS[kind])]
        for module, kind in self._changed:
            if type(module) is OURS[kind]:
                _give_back(module, kind)
        self._changed = others
        if others:
            raise ArgumentError(f"{len(others)} of the layers have another class since", argument="model",
                                value=", ".join(sorted({type(module).__name__ for module, _ in others})),
                                hint="take off first what gave it to them (torch.nn.utils.parametrize."
                                     "remove_parametrizations; a sharded model is converted before it is sharded), "
                                     "and call undo() again")

    def __str__(self) -> str:
        cells = [("layer", "", "converted", "warpconv", "PyTorch", "why")] + [
            (row.name, row.layer, "yes" if row.converted else "no", _milliseconds(row.ours),
             _milliseconds(row.theirs), row.why) for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*cells)]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells)
        return "\n".join(lines)


def _give_back(module: torch.nn.Module, kind: type) -> None:
    """The layer becomes PyTorch's ``kind``, and forgets what only ours has."""
    module.forget_prepared()        # type: ignore[operator]
    for name in ("frozen", "precision"):
        module.__dict__.pop(name, None)
    module.__class__ = kind


def restore(model: torch.nn.Module) -> list[str]:
    """Make all of warpconv's layers in a model PyTorch's own, whoever made them so: for copies of a converted model
    and models from files, which no Conversion knows, and before torch.jit.script, fusing and quantizing, which look
    for PyTorch's classes.

    Parameters
    ----------
    model : torch.nn.Module
        Changed in place; weights and hooks stay as they are. Layers made as warpconv's (padding 'causal') that
        PyTorch has not stay warpconv's.

    Returns
    -------
    list of str
        The names of the layers that became PyTorch's.

    Raises
    ------
    ArgumentTypeError
        ``model`` is no module.
    """
    if not isinstance(model, torch.nn.Module):
        raise ArgumentTypeError("restore takes a module", argument="model", value=type(model).__name__,
                                hint="a torch.nn.Module")
    kinds, found = {ours: kind for kind, ours in OURS.items()}, []
    for name, module in model.named_modules():
        if type(module) in kinds and getattr(module, "padding", None) != "causal":
            _give_back(module, kinds[type(module)])
            found.append(name)
    return found


def convert(model: torch.nn.Module, example: Any = None, *, where: str | Rule = "estimate",
            workers: int | None = None, frozen: bool = False, precision: str = "float32") -> Conversion:
    """Compute a model's convolution layers by warpconv where that is quicker.

    A layer stays the same object, with its parameters, hooks and name; its class becomes ``warpconv.torch``'s. Layers
    of other classes than PyTorch's own are left alone, and so are layers whose forward or _conv_forward somebody has
    set, and layers of types and on devices without kernels (float64, meta).

    Parameters
    ----------
    model : torch.nn.Module
        Changed in place.
    example : Tensor, tuple or mapping, optional
        What the model is called with once (a tuple holds positional arguments, a mapping those by name), without
        gradients and in eval mode, to see the layers' sizes (under autocast, where it is on); needed by 'estimate',
        'measure' and 'graph', and by whoever wants the kernels compiled now, at the same time, and not one by one at
        the first call.
    where : str or callable
        'estimate': where the planner's estimate is below what PyTorch takes for such a layer on an H200, which is
        not known of volumes; 'measure': where a layer alone was measured to take less of the time of the device that
        it is on, forward and, in training mode, backward, as far as the host, which takes longer for some, does not
        become what the model waits for; 'graph': by the device's time alone, for models that are called by CUDA graphs;
        'all'; or a function of (name, layer, its input or None) that says so.
    workers : int, optional
        Threads that compile, before anything is measured, too; as in specialize_all.
    frozen : bool
        Whether weights do not change any more: CUDA graphs then read them as they are prepared, once, where each
        replay else prepares them again, 1 to 4 us a layer, and sees what they have become. An attribute of Conv1d and
        Conv2d; weights of volumes and of transposed layers are prepared in every call and replay.
    precision : str
        How exact the products of float32 elements are, conv2d's, of layers that are converted and of their gradients;
        an attribute of theirs. 'tf32' is what PyTorch's layers have as it ships; its switches are not followed.

    Returns
    -------
    Conversion
        The table of what was converted and why, and its undo().

    Raises
    ------
    ArgumentError, ArgumentTypeError
        ``where`` is no rule, or needs an example and there is none; ``example`` is nothing that the model can be called
        with; ``model`` is no module; there is no such ``precision``.
    WarpconvError
        A kernel cannot be made; the model is then as it was.
    """
    if not isinstance(model, torch.nn.Module):
        raise ArgumentTypeError("convert takes a module", argument="model", value=type(model).__name__,
                                hint="a torch.nn.Module")
    if not callable(where) and where not in ("estimate", *MEASURED, "all"):
        raise ArgumentError("unknown rule", argument="where", value=where,
                            hint="'estimate', 'measure', 'graph', 'all', or a function of (name, layer, input)")
    if example is None and where in ("estimate", *MEASURED):
        raise ArgumentError("the rule needs the layers' sizes", argument="example", value=None,
                            hint="an input of the model, or where='all'")
    precision = Precision.parse(precision).value
    inputs = None if example is None else sizes.inputs_of(model, example)
    done = Conversion([])
    if where in MEASURED:
        places = {x.device for met in (inputs or {}).values() for x in met if x.is_cuda}
        with torch.random.fork_rng(places):     # seeded runs stay as they are
            where = _measured(model, example, inputs or {}, where == "graph", workers, precision)
    try:
        for name, module in list(model.named_modules()):
            if isinstance(module, sizes.CONVOLUTION):
                done.rows.append(_converted(name, module, inputs, where, precision, done._changed))
        for module, _ in done._changed:
            if precision != DEFAULT:
                module.precision = precision        # type: ignore[assignment]
            if frozen and isinstance(module, (modules.Conv1d, modules.Conv2d)):
                module.frozen = True
        if inputs is not None:
            ahead.build([use for module, _ in done._changed for x in inputs[module]
                         for use in _uses(module, x, precision)], workers)
    except BaseException:
        done.undo()
        raise
    return done


class _Measured(dict[torch.nn.Module, Answer]):
    """The answers of the rules 'measure' and 'graph'."""


def _measured(model: torch.nn.Module, example: Any, inputs: dict[torch.nn.Module, list[Tensor]], graph: bool,
              workers: int | None, precision: str) -> _Measured:
    served = {module: met for module, met in inputs.items()
              if type(module) in OURS and sizes.unserved(module, met) is None}
    ahead.build([use for module, met in served.items() for x in met for use in _uses(module, x, precision)],
                workers, left=WarpconvError)
    answers, found = _Measured(), {}
    for module, met in served.items():
        try:
            found[module] = measure.beside(module, OURS[type(module)], met, precision)
        except WarpconvError as error:
            answers[module] = False, f"not served: {error}", None, None
    whole = None
    if not graph and any(times.is_quicker for times in found.values()):
        whole = measure.whole(model, *sizes.arguments(example), next(iter(served.values()))[0].device)
    taken = measure.chosen(found, whole)
    for module, times in found.items():
        why = times.said
        if times.is_quicker and module not in taken:
            why += f"; but it takes {times.paid * 1e6:.0f} us more of the host, for which this model would wait"
        answers[module] = module in taken, why, times.ours.device, times.theirs.device
    return answers


def _converted(name: str, module: Any, inputs: dict[torch.nn.Module, list[Tensor]] | None,
               where: str | Rule | _Measured, precision: str, changed: list[tuple[torch.nn.Module, type]]) -> Row:
    """One layer, converted if the rule says so."""
    said, kind = sizes.said(module), type(module)
    if kind not in OURS:
        why = "converted already" if kind in OURS.values() else f"of the class {kind.__module__}.{kind.__qualname__}"
        return Row(name, said, False, why)
    if replaced := [method for method in ("forward", "_conv_forward") if method in module.__dict__]:
        return Row(name, said, False, f"its {replaced[0]} is somebody's own")
    met = [] if inputs is None else inputs.get(module, [])
    if inputs is not None and not met:
        return Row(name, said, False, "the example does not come by")
    unserved = sizes.unserved(module, met)
    if unserved is not None:
        return Row(name, said, False, f"not served: {unserved}")
    wanted, why, ours, theirs = _asked(where, name, module, met, precision)
    if wanted:
        changed.append((module, kind))
        module.__class__ = OURS[kind]
    return Row(name, said, wanted, why, ours, theirs)


def _asked(where: str | Rule | _Measured, name: str, module: Any, met: list[Tensor], precision: str) -> Answer:
    if isinstance(where, _Measured):
        return where[module]
    if callable(where):
        return bool(where(name, module, met[0] if met else None)), "the rule that was given", None, None
    if where == "all":
        return True, "all", None, None
    if met[0].device.type != "cuda":
        return False, "on the CPU device kernels are executed to be checked, not to be quick", None, None
    try:
        return _of_all([estimate.quicker(sizes.shape_of(module, x), _hardware(x.device),
                                         torch.backends.cudnn.allow_tf32, precision) for x in met])
    except WarpconvError as error:      # sizes or elements that no kernel has
        return False, f"not served: {error}", None, None


def _of_all(answers: list[Answer]) -> Answer:
    """One answer for a layer that is called several times."""
    if len(answers) == 1 or any(ours is None or theirs is None for _, _, ours, theirs in answers):
        return min(answers, key=lambda answer: answer[0])
    ours, theirs = (sum(answer[number] or 0.0 for answer in answers) for number in (2, 3))
    return (ours < estimate.MARGIN * theirs, f"{theirs / ours:.2g} times PyTorch's speed in {len(answers)} calls",
            ours, theirs)


def _hardware(device: torch.device) -> Hardware:
    return contexts.hardware(torch.cuda.current_device() if device.index is None else device.index)


def _uses(module: Any, input: Tensor, precision: str) -> list[ahead.Use]:
    """What a call of a converted layer computes: its output and, in training mode, the gradients."""
    shape, transposed = sizes.shape_of(module, input), isinstance(module, sizes.TRANSPOSED)
    forward, data = Operation.FORWARD, Operation.DATA_GRADIENT
    output, back = (data, forward) if transposed else (forward, data)
    precision = estimate.precision_of(shape, precision)
    found = [ahead.Use(shape, input, output, precision, module.bias is not None and not transposed)]
    if module.training:
        of_gradients = OF_GRADIENTS.get(precision, DEFAULT)
        found.append(ahead.Use(shape, input, back, of_gradients))
        if module.weight.requires_grad:
            found.append(ahead.Use(shape, input, Operation.FILTER_GRADIENT, of_gradients))
    return found


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.4f} ms"
