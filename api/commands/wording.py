"""Errors of the library in the words of the command line: options in place of arguments."""

from __future__ import annotations

import copy

from warpconv.codegen.errors import WarpconvError

_OPTIONS = {
    **dict.fromkeys(("n", "c", "h", "w", "input"), "--input"), **dict.fromkeys(("k", "r", "s", "weight"), "--filter"),
    **{name: f"--{name}" for name in ("stride", "padding", "dilation", "groups", "dtype", "layout", "epilogue",
                                      "activation", "algorithm", "arch", "device", "jobs", "output", "database",
                                      "strategy", "budget", "configurations", "set", "precision")},
    **{name.replace("-", "_"): f"--{name}" for name in ("padding-mode", "padding-value", "weight-dtype", "out-dtype",
                                                        "cast")},
    **dict.fromkeys(("numerics", "accum_dtype"), "--accumulate"), "archs": "--arch", "layer": "LAYERS",
    "layers": "LAYERS", "bias": "--epilogue", "residual": "--residual", "settings": "--set",
    "cxx": "WARPCONV_CXX",
}
_FROM_FILES = {"run": {"--input": "X", "--filter": "W", "bias": "BIAS"},
               "filter": {"--input": "PHOTO", "--filter": "--kernel", "memory": "--memory", "axes": "--axes",
                          "budget": "--memory", "scheduler": "--scheduler"}}      # verbs that have these in files
_PHRASES = (("device='cpu'", "--device cpu"), ("device=\"cpu\"", "--device cpu"),
            ("pass bias= or leave 'bias' out of epilogue=", "name a BIAS file, or leave bias out of --epilogue"),
            ("pass residual=, an array like the output, or leave 'residual' out of epilogue=",
             "name a file by --residual, or leave residual out of --epilogue"), (", or None", ""))


def worded(error: WarpconvError, verb: str | None = None) -> WarpconvError:
    """A copy of the error, its argument named as ``verb`` has it."""
    made = copy.copy(error)
    made.message, made.hint = phrase(error.message), error.hint and phrase(error.hint)
    name = error.argument
    if name is not None:
        option = f"--{name}" if name.startswith("set ") else _OPTIONS.get(name, name)
        files = _FROM_FILES.get(verb or "", {})
        made.argument = files.get(name, files.get(option, option))
    return made


def phrase(text: str) -> str:
    """What the library says of its own calls, said of options."""
    for said, meant in _PHRASES:
        text = text.replace(said, meant)
    return text
