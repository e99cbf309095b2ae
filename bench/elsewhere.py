"""``python -m bench.elsewhere``: layers of models that no other study has, each beside cuDNN.

Diffusion models, decoders, discriminators, detectors, segmentation, super-resolution, optical flow, speech, board
games and older networks, at the sizes that these are run at: the plan that the rules take, its filter prepared, and
PyTorch's conv2d (TF32 off), both in CUDA graphs over inputs that rotate past the second-level cache (bench.beside).
Prints each layer whose kernel is slower than cuDNN's, or takes more than 20 times its floor, and the means;
``--json FILE`` keeps all rows.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from bench.beside import measure
from bench.devices import open_device
from bench.harness import compile_ahead
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

FAR = 20.0      # times its floor
REPLAY_US = 6e2
DTYPES, LAYOUTS = ("float16", "float32"), ("NHWC", "NCHW")

# name, images, then (channels, image, filters, filter size) and what is not usual of them
SQUARE: tuple[tuple[str, int, tuple[tuple[int, int, int, int], ...], dict[str, Any]], ...] = (
    ("diffusion", 2, ((4, 64, 320, 3), (320, 64, 320, 3), (640, 32, 640, 3), (1280, 16, 1280, 3), (2560, 8, 1280, 3),
                      (960, 64, 320, 3), (320, 64, 4, 3)), {}),
    ("autoencoder", 1, ((3, 256, 128, 3), (128, 256, 128, 3), (256, 128, 256, 3), (512, 64, 512, 3),
                        (128, 256, 3, 3)), {}),
    ("stylegan", 16, ((513, 4, 512, 3), (512, 16, 512, 3), (256, 64, 256, 3), (128, 128, 128, 3)), {}),
    ("esrgan", 1, ((64, 128, 32, 3), (96, 128, 32, 3), (128, 128, 32, 3), (192, 128, 32, 3)), {}),
    ("yolo", 8, ((32, 320, 64, 3), (64, 160, 128, 3), (128, 80, 256, 3), (256, 40, 512, 3)), {"stride": 2}),
    ("yolo, first", 8, ((3, 640, 32, 6),), {"stride": 2, "padding": 2}),
    ("yolov8", 16, ((3, 640, 16, 3), (16, 320, 32, 3), (32, 160, 64, 3), (64, 80, 128, 3), (128, 40, 256, 3),
                    (64, 80, 64, 3), (128, 40, 128, 3), (8, 320, 16, 3), (24, 160, 48, 3), (48, 160, 96, 3),
                    (32, 320, 64, 3), (64, 160, 128, 3)), {"stride": 2}),
    ("yolov8", 16, ((16, 160, 16, 3), (32, 80, 32, 3), (32, 160, 32, 3), (64, 80, 64, 3), (64, 40, 64, 3),
                    (128, 20, 128, 3), (64, 80, 80, 3), (80, 80, 80, 3), (128, 40, 64, 3), (128, 40, 80, 3),
                    (80, 40, 80, 3), (256, 20, 64, 3), (256, 20, 80, 3), (80, 20, 80, 3)), {}),
    ("yolov8", 16, ((32, 160, 32, 1), (48, 160, 32, 1), (64, 80, 64, 1), (128, 80, 64, 1), (192, 80, 64, 1),
                    (96, 80, 64, 1), (80, 80, 80, 1), (128, 40, 128, 1), (256, 40, 128, 1), (384, 40, 128, 1),
                    (192, 40, 128, 1), (256, 20, 256, 1), (384, 20, 256, 1), (512, 20, 256, 1), (256, 20, 128, 1)), {}),
    ("yolo, heads", 8, ((256, 40, 255, 1), (512, 20, 255, 1)), {}),
    ("aspp", 4, ((2048, 33, 256, 3),), {"dilation": 6}), ("aspp", 4, ((2048, 33, 256, 3),), {"dilation": 18}),
    ("deeplab", 4, ((512, 65, 512, 3),), {"dilation": 2}), ("segmentation head", 4, ((256, 129, 21, 1),), {}),
    ("srcnn", 4, ((3, 256, 64, 9), (64, 256, 32, 5), (32, 256, 3, 5)), {}),
    ("dcgan", 64, ((3, 64, 64, 5), (64, 32, 128, 5)), {"stride": 2, "padding": 2}),
    ("dcgan", 64, ((256, 8, 512, 4),), {"stride": 2, "padding": 1}),
    ("regnet", 32, ((168, 56, 168, 3),), {"groups": 7}), ("regnet", 32, ((336, 28, 336, 3),), {"groups": 14}),
    ("regnet", 32, ((448, 14, 448, 3),), {"groups": 8}),
    ("inception", 32, ((80, 73, 192, 3),), {"padding": 0}),
    ("inception", 32, ((288, 35, 384, 3),), {"padding": 0, "stride": 2}),
    ("unet", 1, ((1, 572, 64, 3), (64, 570, 64, 3), (128, 392, 64, 3), (64, 388, 2, 1)), {"padding": 0}),
    ("unet, 33 channels", 4, ((33, 128, 33, 3),), {}),
    ("vit", 32, ((3, 224, 768, 16),), {"stride": 16, "padding": 0}),
    ("vit, 14 x 14", 32, ((3, 224, 1024, 14),), {"stride": 14, "padding": 0}),
    ("vit, 32 x 32", 32, ((3, 224, 768, 32),), {"stride": 32, "padding": 0}),
    ("vit, 384", 16, ((3, 384, 768, 16),), {"stride": 16, "padding": 0}),
    ("vit, one image", 1, ((3, 224, 768, 16),), {"stride": 16, "padding": 0}),
    ("segment anything", 1, ((3, 1024, 768, 16),), {"stride": 16, "padding": 0}),
    ("dinov2", 4, ((3, 518, 768, 14),), {"stride": 14, "padding": 0}),
    ("swin", 32, ((3, 224, 96, 4),), {"stride": 4, "padding": 0}),
    ("pvt", 32, ((64, 56, 64, 8),), {"stride": 8, "padding": 0}),
    ("pvt", 32, ((128, 28, 128, 4),), {"stride": 4, "padding": 0}),
    ("pvt", 32, ((320, 14, 320, 2),), {"stride": 2, "padding": 0}),
    ("squeezenet", 32, ((64, 55, 16, 1), (16, 55, 64, 3), (512, 13, 1000, 1)), {}),
    ("resnet18", 1, ((64, 56, 64, 3),), {}), ("resnet18", 128, ((64, 56, 64, 3),), {}),
    ("cifar", 128, ((16, 32, 16, 3), (64, 8, 64, 3), (160, 32, 160, 3)), {}),
    ("mnist", 64, ((1, 28, 32, 3), (32, 26, 64, 3)), {"padding": 0}),
    ("lenet", 64, ((1, 28, 6, 5),), {}), ("lenet", 64, ((6, 14, 16, 5),), {"padding": 0}),
    ("alexnet", 64, ((3, 224, 64, 11),), {"stride": 4, "padding": 2}), ("alexnet", 64, ((64, 27, 192, 5),), {}),
    ("alexnet", 64, ((192, 13, 384, 3),), {}),
    ("atari", 32, ((4, 84, 32, 8),), {"stride": 4, "padding": 0}),
    ("atari", 32, ((32, 20, 64, 4),), {"stride": 2, "padding": 0}), ("atari", 32, ((64, 9, 64, 3),), {"padding": 0}),
    ("go", 64, ((17, 19, 256, 3), (256, 19, 256, 3), (256, 19, 2, 1)), {}),
)
# name, and what ConvShape takes, of those that are not square
OTHERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("inception", dict(n=32, c=128, h=17, w=17, k=128, r=1, s=7, padding=(0, 3))),
    ("inception", dict(n=32, c=128, h=17, w=17, k=192, r=7, s=1, padding=(3, 0))),
    ("inception", dict(n=32, c=384, h=8, w=8, k=384, r=1, s=3, padding=(0, 1))),
    ("deepspeech", dict(n=8, c=1, h=161, w=800, k=32, r=41, s=11, stride=2, padding=(20, 5))),
    ("deepspeech", dict(n=8, c=32, h=81, w=400, k=32, r=21, s=11, stride=2, padding=(10, 5))),
    ("audio", dict(n=8, c=1, h=80, w=3000, k=32, r=3, s=3, padding=1)),
    ("audio", dict(n=8, c=32, h=80, w=1500, k=32, r=3, s=3, stride=2, padding=1)),
    ("flow", dict(n=4, c=6, h=384, w=512, k=64, r=7, s=7, stride=2, padding=3)),
    ("flow", dict(n=4, c=64, h=192, w=256, k=128, r=5, s=5, stride=2, padding=2)),
    ("flow", dict(n=4, c=1024, h=6, w=8, k=2, r=3, s=3, padding=1)),
    ("crnn", dict(n=32, c=1, h=32, w=280, k=64, r=3, s=3, padding=1)),
    ("crnn", dict(n=32, c=256, h=8, w=70, k=512, r=3, s=3, padding=1)),
    ("crnn", dict(n=32, c=512, h=2, w=71, k=512, r=2, s=2)),
)


def layers(dtype: str, layout: str) -> Iterator[tuple[str, ConvShape]]:
    """Every layer's name and shape."""
    for name, n, sizes, changes in SQUARE:
        for c, h, k, size in sizes:
            usual = {"padding": size // 2 * changes.get("dilation", 1), **changes}
            yield name, ConvShape(n=n, c=c, h=h, w=h, k=k, r=size, s=size, dtype=dtype, layout=layout, **usual)
    for name, sides in OTHERS:
        yield name, ConvShape(**sides, dtype=dtype, layout=layout)


@click.command(help=__doc__.split("\n\n")[1])
@click.option("--dtype", "dtypes", type=click.Choice(DTYPES), multiple=True, default=DTYPES,
              help="Only layers in this element type.")
@click.option("--layout", "layouts", type=click.Choice(LAYOUTS), multiple=True, default=LAYOUTS,
              help="Only layers in this layout.")
@click.option("--model", "models", multiple=True, help="Only layers of this one; several times for several.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Where the rows go.")
def main(dtypes: tuple[str, ...], layouts: tuple[str, ...], models: tuple[str, ...], file: Path | None) -> None:
    import torch
    torch.backends.cudnn.benchmark = True
    device = open_device("torch")
    chosen = [(dtype, layout, name, shape) for dtype in dtypes for layout in layouts
              for name, shape in layers(dtype, layout) if not models or name in models]
    if not chosen:
        raise click.UsageError(f"no layer is of {', '.join(models)}")
    compile_ahead(device, [lambda shape=shape: plan_layer(shape, arch=device.arch) for *_, shape in chosen])
    rows = []
    for dtype, layout, name, shape in chosen:
        try:
            found = measure(torch, shape, replay_us=REPLAY_US)
        except Exception as error:          # the row says so; the others are measured
            found = {"failed": f"{type(error).__name__}: {error}"}
        rows.append({"dtype": dtype, "layout": layout, "name": name, "shape": str(shape), **found})
    click.echo(f"{device.name}, {time.strftime('%Y-%m-%d')}\n")
    click.echo("| type | layout | model | layer | algorithm | us | cuDNN us | floor us | cuDNN / ours |\n"
               "|---|---|---|---|---|--:|--:|--:|--:|")
    for row in sorted((row for row in rows if "failed" not in row), key=lambda row: row["ratio"]):
        if row["ratio"] < 1 or row["ours"] > FAR * row["floor"]:
            click.echo(f"| {row['dtype']} | {row['layout']} | {row['name']} | {row['shape']} | {row['algorithm']} | "
                       f"{row['ours']:.1f} | {row['cudnn']:.1f} | {row['floor']:.1f} | {row['ratio']:.2f} |")
    for dtype in dtypes:
        for layout in layouts:
            ratios = [row["ratio"] for row in rows if (row["dtype"], row["layout"]) == (dtype, layout)
                      and "failed" not in row]
            mean, below = statistics.geometric_mean(ratios), sum(ratio < 0.8 for ratio in ratios)
            click.echo(f"\n{dtype} {layout}: {len(ratios)} layers, {mean:.2f} in the mean, {below} below 0.8")
    for row in rows:
        if "failed" in row:
            click.echo(f"failed: {row['dtype']} {row['layout']} {row['shape']}: {row['failed']}")
    if file is not None:
        file.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
