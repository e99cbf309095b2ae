"""The convolutions of torchvision's networks at 224 x 224, as data: nothing of torchvision is needed to time them.

A layer is (C, H = W, filter, K, stride, padding, groups) and stands as often as the network has it, in its order. The
numbers of each network are those of its paper and of torchvision's module of the same name (0.19); the sums of their
products are tested against the published ones (tests/bench/test_nets.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

Layer = tuple[int, int, int, int, int, int, int]


def resnet50() -> Iterator[Layer]:
    yield from _resnet(64, 1)


def resnext50_32x4d() -> Iterator[Layer]:
    yield from _resnet(128, 32)


def _resnet(width: int, groups: int) -> Iterator[Layer]:
    """Bottlenecks, whose 3x3 has the stride."""
    yield 3, 224, 7, 64, 2, 3, 1
    c, h = 64, 56
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner, out = width << stage, 256 << stage
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 0 else 1
            yield c, h, 1, inner, 1, 0, 1
            yield inner, h, 3, inner, stride, 1, groups
            yield inner, h // stride, 1, out, 1, 0, 1
            if block == 0:
                yield c, h, 1, out, stride, 0, 1
            c, h = out, h // stride


def vgg16() -> Iterator[Layer]:
    c, h = 3, 224
    for k, layers in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(layers):
            yield c, h, 3, k, 1, 1, 1
            c = k
        h //= 2


def googlenet() -> Iterator[Layer]:
    """torchvision's, whose 5x5 branches are 3x3."""
    yield 3, 224, 7, 64, 2, 3, 1
    yield 64, 56, 1, 64, 1, 0, 1
    yield 64, 56, 3, 192, 1, 1, 1
    for h, modules in ((28, ((192, 64, 96, 128, 16, 32, 32), (256, 128, 128, 192, 32, 96, 64))),
                       (14, ((480, 192, 96, 208, 16, 48, 64), (512, 160, 112, 224, 24, 64, 64),
                             (512, 128, 128, 256, 24, 64, 64), (512, 112, 144, 288, 32, 64, 64),
                             (528, 256, 160, 320, 32, 128, 128))),
                       (7, ((832, 256, 160, 320, 32, 128, 128), (832, 384, 192, 384, 48, 128, 128)))):
        for c, one, reduced, three, reduced_more, five, pooled in modules:
            yield c, h, 1, one, 1, 0, 1
            yield c, h, 1, reduced, 1, 0, 1
            yield reduced, h, 3, three, 1, 1, 1
            yield c, h, 1, reduced_more, 1, 0, 1
            yield reduced_more, h, 3, five, 1, 1, 1
            yield c, h, 1, pooled, 1, 0, 1


def mobilenet_v2() -> Iterator[Layer]:
    yield 3, 224, 3, 32, 2, 1, 1
    c, h = 32, 112
    for expand, k, blocks, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                     (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(blocks):
            stride, inner = first if block == 0 else 1, c * expand
            if expand > 1:
                yield c, h, 1, inner, 1, 0, 1
            yield inner, h, 3, inner, stride, 1, inner
            c, h = k, h // stride
            yield inner, h, 1, c, 1, 0, 1
    yield c, h, 1, 1280, 1, 0, 1


def efficientnet_b0() -> Iterator[Layer]:
    """With the two 1x1 layers of each squeeze and excitation, whose image is one pixel."""
    yield 3, 224, 3, 32, 2, 1, 1
    c, h = 32, 112
    for expand, size, k, blocks, first in ((1, 3, 16, 1, 1), (6, 3, 24, 2, 2), (6, 5, 40, 2, 2), (6, 3, 80, 3, 2),
                                           (6, 5, 112, 3, 1), (6, 5, 192, 4, 2), (6, 3, 320, 1, 1)):
        for block in range(blocks):
            stride, inner = first if block == 0 else 1, c * expand
            if expand > 1:
                yield c, h, 1, inner, 1, 0, 1
            yield inner, h, size, inner, stride, size // 2, inner
            h //= stride
            yield inner, 1, 1, max(1, c // 4), 1, 0, 1
            yield max(1, c // 4), 1, 1, inner, 1, 0, 1
            yield inner, h, 1, k, 1, 0, 1
            c = k
    yield c, h, 1, 1280, 1, 0, 1


def convnext_tiny() -> Iterator[Layer]:
    """Its 1x1 layers are Linear modules, and not here."""
    yield 3, 224, 4, 96, 4, 0, 1
    c, h = 96, 56
    for stage, blocks in enumerate((3, 3, 9, 3)):
        if stage:
            yield c, h, 2, 2 * c, 2, 0, 1
            c, h = 2 * c, h // 2
        for _ in range(blocks):
            yield c, h, 7, c, 1, 3, c


def shufflenet_v2_x1_0() -> Iterator[Layer]:
    yield 3, 224, 3, 24, 2, 1, 1
    c, h = 24, 56
    for out, blocks in ((116, 4), (232, 8), (464, 4)):
        half = out // 2
        yield c, h, 3, c, 2, 1, c                   # the first block's other branch
        yield c, h // 2, 1, half, 1, 0, 1
        yield c, h, 1, half, 1, 0, 1
        yield half, h, 3, half, 2, 1, half
        c, h = out, h // 2
        yield half, h, 1, half, 1, 0, 1
        for _ in range(blocks - 1):
            yield half, h, 1, half, 1, 0, 1
            yield half, h, 3, half, 1, 1, half
            yield half, h, 1, half, 1, 0, 1
    yield c, h, 1, 1024, 1, 0, 1


NETS = {net.__name__: Counter(net()) for net in (resnet50, vgg16, googlenet, mobilenet_v2, efficientnet_b0,
                                                 convnext_tiny, shufflenet_v2_x1_0, resnext50_32x4d)}
