"""Networks of torchvision and timm as .onnx files, by both exporters of PyTorch.

    pip install torch torchvision timm onnx onnxscript     # in an environment of its own
    python benchmarks/export_networks.py nets              # then benchmarks/networks.py nets/*.onnx

Weights are random; the statistics of batch norms are those of a batch of noise, as after training.
--names: some of them. --small: members of the families that are small enough for tests instead, as
tests/formats/exported has them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx
import torch
import torchvision.models as vision
from timm import create_model
from timm.models.convnext import ConvNeXt
from timm.models.vision_transformer import VisionTransformer
from torch import nn

IMAGE = (3, 224, 224)
BATCH = 8  # of the noise that batch norms see
SEQUENCE = (9, 128)


class UNet(nn.Module):
    """Two levels down and up, with the skips joined; an output for each pixel's class."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((3, 16), (16, 32), (32, 64))
        self.down = nn.ModuleList(_convolutions(*size) for size in sizes)
        self.up = nn.ModuleList(_convolutions(a + b, a) for b, a in ((64, 32), (32, 16)))
        self.larger = nn.Upsample(scale_factor=2, mode="nearest")
        self.last = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the image."""
        skips = []
        for layer in self.down:
            x = layer(x if not skips else nn.functional.max_pool2d(x, 2))
            skips.append(x)
        for layer, skip in zip(self.up, skips[-2::-1], strict=True):
            x = layer(torch.cat([self.larger(x), skip], dim=1))
        return self.last(x)


def _convolutions(inside: int, outside: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU()
    )


def sequence_network() -> nn.Module:
    """A 1-D CNN over windows of a motion sensor."""
    return nn.Sequential(
        nn.Conv1d(SEQUENCE[0], 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(32, 64, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
        nn.Linear(64, 6),
    )  # fmt: skip


NETWORKS: Mapping[str, Callable[[], nn.Module]] = {
    **{
        name: getattr(vision, name)
        for name in (
            *("resnet18", "resnet50", "vgg16", "mobilenet_v2", "mobilenet_v3_large"),
            *("mobilenet_v3_small", "efficientnet_b0", "mnasnet1_0", "squeezenet1_1"),
            *("shufflenet_v2_x1_0", "densenet121", "regnet_x_400mf", "regnet_y_400mf"),
            "convnext_tiny",
        )
    },
    "vit_tiny": lambda: create_model("vit_tiny_patch16_224"),
    "deit_tiny": lambda: create_model("deit_tiny_patch16_224"),
    "cnn_1d": sequence_network,
    "unet": UNet,
}
SMALL: Mapping[str, Callable[[], nn.Module]] = {
    "vit": lambda: VisionTransformer(
        img_size=32, patch_size=8, embed_dim=12, depth=2, num_heads=3, mlp_ratio=2, num_classes=4
    ),
    "vit_torchvision": lambda: vision.VisionTransformer(32, 8, 1, 2, 12, 24, num_classes=4),
    "convnext": lambda: ConvNeXt(
        num_classes=4, depths=(1, 1, 1, 1), dims=(8, 8, 12, 12), patch_size=2
    ),
    "shufflenet": lambda: vision.ShuffleNetV2([2, 1, 1], [8, 12, 16, 16, 16], num_classes=4),
    "densenet": lambda: vision.DenseNet(4, (2, 2), 8, 2, num_classes=4),
}
SMALL_IMAGE = (3, 32, 32)
EXPORTERS: Mapping[str, dict[str, Any]] = {
    "old": {"dynamo": False, "opset_version": 14},
    "new": {"dynamo": True, "opset_version": 18, "external_data": False, "verbose": False},
}


def main() -> None:
    """Write NAME-old.onnx and NAME-new.onnx of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--names", nargs="+", choices=[*NETWORKS, *SMALL])
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    makers, image = (SMALL, SMALL_IMAGE) if options.small else (NETWORKS, IMAGE)
    for name in options.names or makers:
        torch.manual_seed(0)
        network, shape = makers[name](), SEQUENCE if name == "cnn_1d" else image
        with torch.no_grad():
            if options.small:
                spread(network)
            network.train()(torch.randn(BATCH, *shape))
        for exporter, settings in EXPORTERS.items():
            path = options.folder / f"{name}-{exporter}.onnx"
            torch.onnx.export(network.eval(), (torch.randn(1, *shape),), path, **settings)
            without_notes(path)
            print(path, flush=True)


def spread(network: nn.Module) -> None:
    """Weights that keep the size of what they sum: some networks begin with outputs of nearly 0."""
    for parameter in network.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, 0, parameter[0].numel() ** -0.5)


def without_notes(path: Path) -> None:
    """Leave out where in whose source each node comes from: most of a small file."""
    model = onnx.load(path)
    for thing in (*model.graph.node, *model.graph.value_info, model.graph, model):
        thing.ClearField("doc_string")
        thing.ClearField("metadata_props")
    onnx.save(model, path)


if __name__ == "__main__":
    main()
