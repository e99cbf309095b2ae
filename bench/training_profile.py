"""``python -m bench.training_profile convnext_tiny``: which kernels a training step's time on the GPU goes to.

The steps of the study ``training`` in AMP bfloat16, channels_last: stock and converted by ``where="graph"``, each
kernel's time of a step by PyTorch's profiler, the longest first; then both as CUDA graphs, and by the clock the stock
network, a copy of it (which tells how far equal networks lie apart on this host) and one converted by
``where="measure"``.
"""

from __future__ import annotations

from typing import Any

import click

from bench.studies.training import NETWORKS, TURNS, Step, by_the_clock, equal_networks
from bench.studies.whole_networks import in_turn

LONGEST = 60


def kernels(torch: Any, step: Step) -> list[tuple[float, float, str]]:
    """(milliseconds of a step, launches of it, name) of every kernel, the longest first."""
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    activities = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activities.CUDA, activities.CPU]) as profile:
        for _ in range(2):
            step()
        torch.cuda.synchronize()
    found = [(event.self_device_time_total / 2e3, event.count / 2, event.key) for event in profile.key_averages()
             if event.device_type == torch.autograd.DeviceType.CUDA]
    return sorted(found, reverse=True)


@click.command(help=__doc__.splitlines()[0].replace("`", ""))
@click.argument("names", nargs=-1, required=True, type=click.Choice(list(NETWORKS)))
def main(names: tuple[str, ...]) -> None:
    import torch

    import warpconv.torch
    torch.backends.cudnn.benchmark = True
    for name in names:
        models, x, target = equal_networks(torch, name, "NHWC", 4)
        with torch.autocast("cuda", torch.bfloat16):
            for model, rule in zip(models[2:], ("measure", "graph")):
                print(warpconv.torch.convert(model, x, where=rule))
        steps = [Step(torch, model, x, target, "bfloat16") for model in models]
        for said, step in (("stock", steps[0]), ("converted", steps[3])):
            found = kernels(torch, step)
            print(f"{name}, {said}: {sum(time for time, _, _ in found):.2f} ms")
            for time, launches, kernel in found[:LONGEST]:
                print(f"{time:9.3f} {launches:7.1f} {kernel[:150]}")
        graphs = in_turn(torch, [steps[at].captured() for at in (0, 3)], TURNS)
        eager = by_the_clock(torch, steps[:3])
        print(f"{name}: as graphs, ms: stock {graphs[0]:.2f}, converted {graphs[1]:.2f}; by the clock: stock "
              f"{eager[0]:.2f}, its copy {eager[1]:.2f}, converted {eager[2]:.2f}")


if __name__ == "__main__":
    main()
