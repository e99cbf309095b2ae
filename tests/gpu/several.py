"""``python -m tests.gpu.several``: two GPUs of one host in one process. Apart from the ring, which needs only one."""

from __future__ import annotations

import sys
import threading

import numpy as np

import warpconv
from tests import reference
from tests.settings import generator
from warpconv.codegen.errors import ArgumentTypeError
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.devices.cuda import contexts

SHAPE = ConvShape(n=2, c=3, h=70, w=97, k=4, r=5, s=5, padding=2)
CONSTANT = {"weights": "constant"}


def main() -> int:
    if contexts.count() < 2:
        print(f"needs two GPUs, {contexts.count()} visible")
        return 2
    import torch

    x, w, _ = reference.operands(SHAPE, generator(1))
    wanted = reference.expected(x, w, SHAPE)

    def check(ordinal: int, what: str) -> None:
        """Tensors on one GPU while another is current in PyTorch; then constant weights, by pointer and prepared."""
        here, filters = torch.tensor(x, device=f"cuda:{ordinal}"), torch.tensor(w, device=f"cuda:{ordinal}")
        with torch.cuda.device(1 - ordinal):
            y = warpconv.conv2d(here, filters, padding=2, algorithm="reuse")
        assert y.device.index == ordinal, y.device
        wanted.check(y.cpu().numpy(), what)
        kernel = warpconv.specialize(SHAPE, device=f"cuda:{ordinal}", algorithm="reuse", settings=CONSTANT)
        for weight in (filters, kernel.prepare(filters)):
            wanted.check(kernel(here, weight).cpu().numpy(), f"{what}, constant")

    for ordinal in (0, 1):
        check(ordinal, f"cuda:{ordinal}")
        wanted.check(warpconv.conv2d(x, w, padding=2, device=f"cuda:{ordinal}"), f"NumPy on cuda:{ordinal}")
    failures: list[BaseException] = []

    def work(ordinal: int) -> None:
        try:
            for _ in range(50):
                check(ordinal, f"thread on cuda:{ordinal}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures, failures[0]
    kernel = warpconv.specialize(SHAPE, device="cuda:0")
    for arguments in ((torch.tensor(x, device="cuda:1"), torch.tensor(w, device="cuda:1")),
                      (torch.tensor(x, device="cuda:0"), torch.tensor(w, device="cuda:1"))):
        try:
            kernel(*arguments)
        except ArgumentTypeError as error:
            print("refused:", error)
        else:
            raise AssertionError("arrays of another GPU were accepted")
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    print(f"two GPUs: {contexts.name(0)}, {contexts.name(1)}: all results within the bound "
          f"(numpy {np.__version__}, torch {torch.__version__})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
