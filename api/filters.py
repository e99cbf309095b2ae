"""Named image filters: ``sobel-x``, ``box:5``, ``gaussian:5,1.2``, ... as small arrays of weights.

They are applied as a layer applies them, by cross-correlation: the weight at the right multiplies the pixel at the
right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from warpconv.codegen.errors import ArgumentError

LARGEST = 31        # widest filter that a name gives

_FIXED: dict[str, tuple[str, list[list[int]]]] = {
    "identity": ("the image itself", [[1]]),
    "sobel-x": ("slope from left to right", [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]),
    "sobel-y": ("slope from top to bottom", [[-1, -2, -1], [0, 0, 0], [1, 2, 1]]),
    "prewitt-x": ("slope from left to right", [[-1, 0, 1], [-1, 0, 1], [-1, 0, 1]]),
    "prewitt-y": ("slope from top to bottom", [[-1, -1, -1], [0, 0, 0], [1, 1, 1]]),
    "scharr-x": ("slope from left to right", [[-3, 0, 3], [-10, 0, 10], [-3, 0, 3]]),
    "scharr-y": ("slope from top to bottom", [[-3, -10, -3], [0, 0, 0], [3, 10, 3]]),
    "laplace": ("second derivative, four neighbours", [[0, 1, 0], [1, -4, 1], [0, 1, 0]]),
    "laplace-8": ("second derivative, eight neighbours", [[1, 1, 1], [1, -8, 1], [1, 1, 1]]),
    "sharpen": ("the image less its second derivative", [[0, -1, 0], [-1, 5, -1], [0, -1, 0]]),
}


@dataclass(frozen=True)
class Family:
    """Filters with numbers behind the colon: ``form`` shows how they are written."""

    form: str
    purpose: str
    make: Callable[..., np.ndarray]
    most: int       # how many numbers there may be at most


def weights(name: str) -> np.ndarray:
    """The filter of that name, float32 of (R, S). Raises ArgumentError, with the choices, where there is none."""
    head, _, tail = name.partition(":")
    if head in _FIXED and not tail:
        return np.array(_FIXED[head][1], np.float32)
    family = _FAMILIES.get(head)
    if family is None:
        raise ArgumentError("unknown kernel", argument="--kernel", value=name,
                            hint="one of " + ", ".join(form for form, _ in names()) + ", or a .npy file")
    numbers = _numbers(name, family, tail)
    return family.make(name, *numbers).astype(np.float32)


def names() -> list[tuple[str, str]]:
    """How each filter is written, and what it does."""
    return [(name, purpose) for name, (purpose, _) in _FIXED.items()] + \
           [(family.form, family.purpose) for family in _FAMILIES.values()]


def _numbers(name: str, family: Family, text: str) -> list[float]:
    try:
        numbers = [float(word) for word in text.split(",")] if text else []
        if len(numbers) > family.most or not all(math.isfinite(number) for number in numbers):
            raise ValueError
    except ValueError:
        raise ArgumentError("the kernel's numbers cannot be read", argument="--kernel", value=name,
                            hint=family.form) from None
    return numbers


def _size(name: str, size: float, *, odd: bool = False) -> int:
    if size != int(size) or not 1 <= size <= LARGEST or (odd and size % 2 == 0):
        raise ArgumentError("a kernel cannot have this size", argument="--kernel", value=name,
                            hint=f"{'an odd' if odd else 'a whole'} number from 1 to {LARGEST}")
    return int(size)


def _spread(name: str, sigma: float) -> float:
    if sigma <= 0:
        raise ArgumentError("the standard deviation must be positive", argument="--kernel", value=name,
                            hint="for instance 1.2")
    return sigma


def _offsets(size: int) -> np.ndarray:
    return np.arange(size) - (size - 1) / 2


def _box(name: str, size: float = 3) -> np.ndarray:
    n = _size(name, size)
    return np.full((n, n), 1 / n**2)


def _gaussian(name: str, size: float = 5, sigma: float | None = None) -> np.ndarray:
    n = _size(name, size, odd=True)     # of an even size it would move the picture by half a pixel
    sigma = _spread(name, max(n / 5, 0.3) if sigma is None else sigma)
    line = np.exp(-_offsets(n) ** 2 / (2 * sigma**2))
    return np.outer(line, line) / line.sum() ** 2


def _log(name: str, size: float = 7, sigma: float | None = None) -> np.ndarray:
    """Laplacian of a Gaussian, its sum made zero."""
    n = _size(name, size, odd=True)
    sigma = _spread(name, max(n / 6, 0.3) if sigma is None else sigma)
    squares = _offsets(n)[:, None] ** 2 + _offsets(n)[None, :] ** 2
    made = (squares - 2 * sigma**2) / sigma**4 * np.exp(-squares / (2 * sigma**2))
    return made - made.mean()


def _motion(name: str, size: float = 9, angle: float = 0) -> np.ndarray:
    n = _size(name, size)
    lines = {0: np.ones((1, n)), 90: np.ones((n, 1)), 45: np.eye(n)[::-1], 135: np.eye(n)}
    if angle not in lines:
        raise ArgumentError("motion at this angle is not offered", argument="--kernel", value=name,
                            hint="0, 45, 90 or 135 degrees")
    return lines[int(angle)] / n


def _emboss(name: str, size: float = 3) -> np.ndarray:
    """Light from the upper left: a slope along the diagonal, added to the image."""
    n = _size(name, size, odd=True)
    diagonal = np.sign(np.round(_offsets(n)))
    made = np.diag(diagonal) * 2 / max(1, n - 1)
    made[n // 2, n // 2] = 1
    return made


def _unsharp(name: str, size: float = 5, amount: float = 1) -> np.ndarray:
    """The image, and ``amount`` times what a Gaussian takes from it."""
    made = -amount * _gaussian(name, _size(name, size, odd=True))
    made[made.shape[0] // 2, made.shape[1] // 2] += 1 + amount
    return made


_FAMILIES: dict[str, Family] = {
    "box": Family("box:SIZE", "mean of SIZE x SIZE pixels", _box, 1),
    "gaussian": Family("gaussian:SIZE[,SIGMA]", "Gaussian blur", _gaussian, 2),
    "log": Family("log:SIZE[,SIGMA]", "Laplacian of a Gaussian", _log, 2),
    "unsharp": Family("unsharp:SIZE[,AMOUNT]", "sharpening by what a blur takes away", _unsharp, 2),
    "emboss": Family("emboss:SIZE", "relief, lit from the upper left", _emboss, 1),
    "motion": Family("motion:SIZE[,ANGLE]", "motion blur at 0, 45, 90 or 135 degrees", _motion, 2),
}


def layer_arrays(planes: np.ndarray, kernels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Planes (P, H, W) and a kernel (R, S), or several (K, 1, R, S), as the arrays of a layer.

    Every plane is one image of one channel; its pixels stay of their type, weights are float32.
    """
    kernels = kernels[None, None] if kernels.ndim == 2 else kernels
    return np.ascontiguousarray(planes[:, None]), np.ascontiguousarray(kernels, np.float32)
