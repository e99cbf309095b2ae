"""Networks that the study does not list, beside cuDNN: ``python -m bench.beyond densenet121 timm:resnest50d``.

Every distinct 2D convolution of a network of torchvision, or of timm, as a pass of one image finds them (no weights are
loaded): the plan that select() takes against PyTorch with cuDNN in benchmark mode, as in ``python -m bench.dense``;
``--operation`` takes one of their gradients instead, where cuDNN is PyTorch's convolution_backward.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import click

from bench.beside import measure, measure_gradient
from bench.dense import OPERATIONS, build_ahead
from warpconv.codegen.errors import WarpconvError
from warpconv.codegen.shape import ConvShape

NETWORKS = ("resnet18", "wide_resnet50_2", "densenet121", "inception_v3", "squeezenet1_1", "mnasnet1_0",
            "mobilenet_v3_large", "regnet_y_400mf", "regnet_x_3_2gf", "efficientnet_v2_s", "alexnet", "swin_t",
            "vit_b_16", "convnext_base", "shufflenet_v2_x2_0")
SIDE = {"inception_v3": 299}
SLOW = 0.8
IMAGE = 3           # channels


def layers_of(name: str, dtype: str, layout: str, batch: int) -> Counter[ConvShape]:
    """A network's convolutions, each as often as it has it."""
    import torch
    library, _, model = name.rpartition(":")
    if library == "timm":
        import timm
        made = timm.create_model(model, pretrained=False)
    else:
        import torchvision
        made = torchvision.models.get_model(model, weights=None)
    found: Counter[ConvShape] = Counter()

    def seen(module: Any, inputs: Any, output: Any) -> None:
        _, c, h, w = inputs[0].shape
        (r, s), padding = module.kernel_size, module.padding
        found[ConvShape(n=batch, c=c, h=h, w=w, k=module.out_channels, r=r, s=s, stride=module.stride, padding=padding,
                        dilation=module.dilation, groups=module.groups, dtype=dtype, layout=layout)] += 1

    for module in made.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(seen)
    side = SIDE.get(model, 224)
    with torch.no_grad():
        made.eval().to("meta")(torch.empty(1, 3, side, side, device="meta"))
    return found


@click.command(help=__doc__.splitlines()[0])
@click.argument("networks", nargs=-1, metavar="[NAME ...]")
@click.option("--batch", type=int, default=32, show_default=True)
@click.option("--layout", default="NHWC", show_default=True)
@click.option("--dtype", default="float16", show_default=True)
@click.option("--precision", default="float32", show_default=True, help="Of float32 layers, as conv2d has it.")
@click.option("--operation", type=click.Choice(OPERATIONS), default="forward", show_default=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where the rows go as JSON.")
def main(networks: tuple[str, ...], batch: int, layout: str, dtype: str, precision: str, operation: str,
         output: str | None) -> None:
    import torch
    torch.backends.cudnn.benchmark = True
    nets = {name: layers_of(name, dtype, layout, batch) for name in networks or NETWORKS}
    distinct = list(dict.fromkeys(shape for layers in nets.values() for shape in layers))
    if operation == "data_gradient":        # nobody asks for that of images
        distinct = [shape for shape in distinct if shape.c > IMAGE]
    build_ahead([(shape, "auto") for shape in distinct], precision, operation)
    rows: dict[ConvShape, dict[str, Any]] = {}
    for shape in distinct:
        try:
            rows[shape] = (measure(torch, shape, replay_us=2e3, precision=precision) if operation == "forward" else
                           measure_gradient(torch, shape, operation, replay_us=2e3, precision=precision))
        except (WarpconvError, ArithmeticError, RuntimeError) as error:
            click.echo(f"{shape}: {error}")
    for name, layers in nets.items():
        timed = [(count, rows[shape]) for shape, count in layers.items() if shape in rows]
        if not timed:
            continue
        ours, theirs = (sum(count * row[key] for count, row in timed) for key in ("ours", "cudnn"))
        least = min(row["ratio"] for _, row in timed)
        click.echo(f"{name:20} {sum(layers.values()):4} layers, {len(layers):3} distinct: ours {ours:8.1f} us  cuDNN "
                   f"{theirs:8.1f} us  {theirs / ours:5.2f}x  least {least:5.2f}x")
    slow = sorted((row["ratio"], i, shape) for i, (shape, row) in enumerate(rows.items()) if row["ratio"] < SLOW)
    click.echo(f"{len(slow)} of {len(rows)} layers below {SLOW} of cuDNN's speed")
    for ratio, _, shape in slow:
        row = rows[shape]
        click.echo(f"  {ratio:5.2f}x  {row['algorithm']:14} {row['ours']:8.1f} us  cuDNN {row['cudnn']:8.1f}  floor "
                   f"{row['floor']:8.1f}  {shape}")
    if output:
        with open(output, "w", encoding="utf-8") as file:
            json.dump({"device": torch.cuda.get_device_name(), "torch": torch.__version__,
                       "cudnn": torch.backends.cudnn.version(), "layout": layout, "dtype": dtype, "batch": batch,
                       "precision": precision, "operation": operation,
                       "networks": {name: [[str(shape), count] for shape, count in layers.items()]
                                    for name, layers in nets.items()},
                       "rows": {str(shape): row for shape, row in rows.items()}}, file, indent=1)


if __name__ == "__main__":
    main()
