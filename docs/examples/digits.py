"""A small network learns scikit-learn's handwritten digits twice: with PyTorch's layers, and with them converted.

    python docs/examples/digits.py [--device cuda] [--epochs 6] [--samples 1797]

Both begin with the same weights and see the same batches; the two loss curves and the accuracies on digits that were
not learnt stand side by side at the end. Needs torch and scikit-learn, which brings the pictures.
"""

from __future__ import annotations

import argparse
import copy
import time

import torch
from sklearn.datasets import load_digits
from torch import nn

import warpconv.torch

BATCH, LEARNT = 64, 0.8


def network() -> nn.Module:
    """Layers of each kind: dense, depthwise with a stride and without, 1x1. None has a bias that a batch norm takes
    away again: Adam would walk along its roundings."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 16, 5, padding=2, groups=16, bias=False), nn.Conv2d(16, 32, 1, bias=False), nn.BatchNorm2d(32),
        nn.GELU(), nn.Conv2d(32, 32, 3, stride=2, padding=1, groups=32, padding_mode="replicate"), nn.Conv2d(32, 32, 1),
        nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 10))


def digits(samples: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures (N, 1, 8, 8) with values from -1 to 1, and what they show."""
    found = load_digits()
    pictures = torch.tensor(found.images[:samples], dtype=torch.float32, device=device)[:, None] / 8 - 1
    return pictures, torch.tensor(found.target[:samples], device=device)


def learn(model: nn.Module, pictures: torch.Tensor, shown: torch.Tensor, epochs: int) -> tuple[list[float], float]:
    """The loss of each step, and the share of the pictures at the end, not learnt, that the model then knows."""
    count = int(LEARNT * len(pictures))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    order = torch.Generator().manual_seed(1)
    losses = []
    model.train()
    for _ in range(epochs):
        for batch in torch.randperm(count, generator=order).to(pictures.device).split(BATCH):
            loss = nn.functional.cross_entropy(model(pictures[batch]), shown[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        known = model(pictures[count:]).argmax(1) == shown[count:]
    return losses, known.float().mean().item()


def both(epochs: int, samples: int, device: str) -> tuple[tuple[list[float], float], tuple[list[float], float]]:
    """What PyTorch's layers learn, and what the same layers converted do."""
    torch.manual_seed(0)
    pictures, shown = digits(samples, device)
    theirs = network().to(device)
    ours = copy.deepcopy(theirs)
    print(warpconv.torch.convert(ours, pictures[:BATCH], where="all"))
    results = []
    for name, model in (("torch", theirs), ("warpconv", ours)):
        start = time.perf_counter()
        results.append(learn(model, pictures, shown, epochs))
        print(f"{name}: {time.perf_counter() - start:.1f} s")
    return results[0], results[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--samples", type=int, default=1797)
    given = parser.parse_args()
    (their_losses, theirs), (our_losses, ours) = both(given.epochs, given.samples, given.device)
    steps = len(their_losses) // given.epochs
    print("mean loss of each epoch: torch, warpconv")
    for epoch in range(given.epochs):
        means = (sum(losses[epoch * steps:(epoch + 1) * steps]) / steps for losses in (their_losses, our_losses))
        print(f"  {epoch + 1}  " + "  ".join(f"{mean:.4f}" for mean in means))
    print(f"accuracy: {theirs:.4f}  {ours:.4f}")


if __name__ == "__main__":
    main()
