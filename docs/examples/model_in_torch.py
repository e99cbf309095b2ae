"""A model's convolutions from a pack, inside PyTorch: torch.export's graph is the engine, warpconv computes the layers.

    python docs/examples/model_in_torch.py                              # a small network with residuals
    python docs/examples/model_in_torch.py --model resnet18 --size 64   # torchvision's, with drawn weights

The layers are exported, built into a pack with their filters (batch normalisation folded into them), and served by
their names; every other operation stays PyTorch's. The outputs are compared with the model's own in float64.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import warpconv


class Block(nn.Module):
    """Two convolutions with a way past them, as in a ResNet."""

    def __init__(self, channels: int, stride: int = 1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.past = nn.Conv2d(channels, channels, 1, stride=stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.past(x))


class Small(nn.Module):
    """A network of six convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 5, stride=2, padding=2)
        self.blocks = nn.Sequential(Block(8), Block(8, stride=2))
        self.head = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.silu(self.stem(x))
        return self.head(self.blocks(x).mean((2, 3)))


class FromPack(torch.fx.Interpreter):
    """Runs an exported graph. Where a layer's output is due, the pack's kernel makes it; what is folded into the layer
    is passed over."""

    def __init__(self, exported: torch.export.ExportedProgram, layers: Any, pack: warpconv.Pack, device: str):
        graph = exported.module()
        super().__init__(graph, garbage_collect_values=False)
        self.nodes = {node.name: node for node in graph.graph.nodes}
        inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]       # which module() may rename
        self.nodes |= dict(zip(exported.graph_signature.user_inputs, inputs))
        self.layers = {layer.output: layer for layer in layers}
        self.inner = {name for layer in layers for name in layer.inner}
        self.convs = {layer.output: pack.conv(layer.name, device=device) for layer in layers}

    def run_node(self, node: torch.fx.Node) -> Any:
        if node.name in self.inner:
            return None
        layer = self.layers.get(node.name)
        if layer is None:
            return super().run_node(node)
        x, residual = (self.env[self.nodes[name]] if name else None for name in (layer.input, layer.residual))
        return self.convs[node.name](x, residual=residual)


def drawn(model: nn.Module) -> nn.Module:
    """The model in eval mode, with statistics that are not the initial ones."""
    torch.manual_seed(1)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)     # type: ignore[union-attr, operator]
            module.running_var.uniform_(0.5, 1.5)   # type: ignore[union-attr, operator]
    return model.eval()


def compare(model: nn.Module, x: Tensor, folder: Path, device: str = "cpu") -> tuple[float, int]:
    """The largest difference from the model in float64, of its largest output, and how many layers the pack served."""
    layers = warpconv.layers_of(model, x)
    warpconv.build_pack(layers, folder / "model.zip", ["sm_90"], weights=True)
    pack = warpconv.open_pack(folder / "model.zip")
    with torch.no_grad():
        ours = FromPack(torch.export.export(model, (x,)), layers, pack, device).run(x)
        theirs = model.double()(x.double())
    return float((ours - theirs).abs().max() / theirs.abs().max()), len(layers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="a model of torchvision, by name")
    parser.add_argument("--size", type=int, default=32, help="rows and columns of the input")
    parser.add_argument("--device", default="cpu", help="cpu: the pack's texts are executed there; or auto, cuda")
    given = parser.parse_args()
    torch.manual_seed(0)
    if given.model:
        from torchvision import models
        model = drawn(models.get_model(given.model, weights=None))
    else:
        model = drawn(Small())
    with tempfile.TemporaryDirectory() as folder:
        worst, served = compare(model, torch.randn(2, 3, given.size, given.size), Path(folder), given.device)
    print(f"{served} convolutions from the pack; largest difference {worst:.2g} of the largest output")


if __name__ == "__main__":
    main()
