"""Make the two .onnx files beside this script, as PyTorch exports them; nothing imports torch here.

    pip install torch onnx onnxscript
    python tests/handover/export_networks.py

A ResNet-8 with batch norms, of MLPerf Tiny's shape at half its width, and a MobileNetV3-small-like
network with hard-swish and squeeze-and-excitation for 64x64 images. The first comes from the older
exporter, with its batch norms; the second from the one that is the default since PyTorch 2.9.
Weights are PyTorch's initial ones of seed 1; the batch norms have seen random images.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

FOLDER = Path(__file__).parent


class Residual(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.second = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.shortcut = (
            nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False),
                nn.BatchNorm2d(channels_out),
            )
            if stride > 1
            else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm1(self.first(x)))
        return torch.relu(self.norm2(self.second(y)) + self.shortcut(x))


class ResNet8(nn.Module):
    """[n, 3, 32, 32] to 10 logits."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.blocks = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 32, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.flatten(self.pool(self.blocks(self.stem(x))), 1))


class SqueezeExcite(nn.Module):
    """A factor from 0 to 1 for each channel, from the means of all."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, channels // 4, 1),
            nn.ReLU(),
            nn.Conv2d(channels // 4, channels, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


class Inverted(nn.Module):
    """Expand, depthwise, squeeze-and-excitation, project; with a shortcut where shapes allow."""

    def __init__(self, channels_in: int, wide: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.is_residual = stride == 1 and channels_in == channels_out
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
            nn.Hardswish(),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.Hardswish(),
            SqueezeExcite(wide),
            nn.Conv2d(wide, channels_out, 1, bias=False),
            nn.BatchNorm2d(channels_out),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return x + y if self.is_residual else y


class MobileNetV3(nn.Module):
    """[n, 3, 64, 64] to 5 logits."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish()
        )
        self.blocks = nn.Sequential(
            Inverted(8, 16, 8, 1), Inverted(8, 32, 16, 2), Inverted(16, 48, 16, 1)
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Sequential(nn.Linear(16, 32), nn.Hardswish(), nn.Dropout(0.2))
        self.classifier = nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        features = torch.flatten(self.pool(self.blocks(self.stem(x))), 1)
        return self.classifier(self.head(features))


def prepared(network: nn.Module, size: int) -> tuple[nn.Module, tuple[Tensor]]:
    """In eval mode, after the batch norms have seen random images; and an input."""
    network.train()
    with torch.no_grad():
        for _ in range(20):
            network(torch.rand(32, 3, size, size))
    return network.eval(), (torch.zeros(1, 3, size, size),)


def main() -> None:
    """Write both files."""
    torch.manual_seed(1)
    torch.onnx.export(
        *prepared(ResNet8(), 32),
        str(FOLDER / "resnet8.onnx"),
        input_names=["image"],
        output_names=["logits"],
        dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
        opset_version=17,
        do_constant_folding=False,  # the batch norms stay
        training=torch.onnx.TrainingMode.PRESERVE,
        dynamo=False,
    )
    path = FOLDER / "mobilenet_v3.onnx"
    torch.onnx.export(*prepared(MobileNetV3(), 64), str(path), external_data=False)
    model = onnx.load(path)
    for node in model.graph.node:
        del node.metadata_props[:]  # stack traces with this machine's paths
    onnx.save(model, path)


if __name__ == "__main__":
    main()
