"""What gamma and beta of layer normalizations are worth where a network meets another camera.

    PYTHONPATH=FOLDER_WITH_TORCH python benchmarks/normalizations.py --data cifar10_10k2k.npz

A small ConvNeXt (patches of 4x4, width 24, three blocks of a 5x5 depthwise layer, a normalization
and two layers; five normalizations in all) learns 4,000 images in PyTorch and becomes int8. The
device's camera sees others: less contrast, a tint, a blur, noise. It learns 600 images more, once
by each scheme, in six epochs at --lr auto, without augmentation; 2,000 others are the test. Every
scheme trains the head. SRAM: arena and state of its training step. Means and extremes over seeds,
of network, camera's noise and order.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import mcutrain

WIDTH, BLOCKS, EPOCHS = 24, 3, 6
SCHEMES = ("head", "norm:1", "norm:5", "bias:10,norm:0", "bias:10", "last:1", "last:2")


class Rows(nn.Module):
    """A normalization over the channels of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    """As ConvNeXt's."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Sequential(
            nn.Conv2d(WIDTH, WIDTH, 5, padding=2, groups=WIDTH),
            Rows(),
            nn.Conv2d(WIDTH, 3 * WIDTH, 1),
            nn.GELU(),
            nn.Conv2d(3 * WIDTH, WIDTH, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.parts(x)


class ConvNeXt(nn.Module):
    """Pixels from 0 to 255."""

    def __init__(self) -> None:
        super().__init__()
        stem = (nn.Conv2d(3, WIDTH, 4, stride=4), Rows())
        self.trunk = nn.Sequential(*stem, *(Block() for _ in range(BLOCKS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.trunk(x / 64 - 2).mean((2, 3))))


def trained(x: torch.Tensor, y: torch.Tensor, epochs: int = 12) -> nn.Module:
    """AdamW, batches of 64, shifts and flips, one cycle."""
    net = ConvNeXt()
    adam = torch.optim.AdamW(net.parameters(), 4e-3, weight_decay=0.05)
    steps = epochs * (len(x) // 64 + 1)
    rates = torch.optim.lr_scheduler.OneCycleLR(adam, 4e-3, steps)
    for _ in range(epochs):
        for index in torch.randperm(len(x)).split(64):
            at, (dx, dy) = x[index], torch.randint(-4, 5, (2,)).tolist()
            at = at.flip(3) if torch.rand(()) < 0.5 else at
            adam.zero_grad()
            loss = nn.functional.cross_entropy(net(at.roll((dx, dy), (2, 3))), y[index])
            loss.backward()
            adam.step()
            rates.step()
    return net.eval()


def seen(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What the device's camera makes of images."""
    x = x.astype(np.float32)
    x = (2 * x + np.roll(x, 1, 1) + np.roll(x, 1, 2)) / 4
    x = 0.45 * (x - 128) + np.array([150.0, 120.0, 90.0], np.float32)
    return np.clip(np.rint(x + rng.normal(0, 6, x.shape)), 0, 255).astype(np.uint8)


def run_seed(seed: int, data: Any, folder: Path) -> dict[str, tuple[float, ...]]:
    """SRAM, accuracy before and after, by scheme."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    order = rng.permutation(len(data["x_train"]))
    first, more = order[:4000], order[4000:4600]
    pixels = torch.from_numpy(data["x_train"][first].transpose(0, 3, 1, 2)).float()
    net = trained(pixels, torch.from_numpy(data["y_train"][first]).long())
    path = folder / f"{seed}.onnx"
    torch.onnx.export(net, torch.zeros((1, 3, 32, 32)), str(path), dynamo=False)
    calibration = data["x_train"][first[:300]].astype(np.float32)
    graph = mcutrain.quantize(path, calibration, folder / f"{seed}.int8.onnx").graph
    train = seen(data["x_train"][more], rng), data["y_train"][more]
    test = seen(data["x_test"], rng), data["y_test"]
    with torch.no_grad():
        own = net(torch.from_numpy(data["x_test"].transpose(0, 3, 1, 2)).float()).argmax(1).numpy()
    print(f"seed {seed}: {100 * (own == test[1]).mean():.1f} % by its own camera", flush=True)
    found = {}
    for scheme in SCHEMES:
        plan = mcutrain.prepare(graph, scheme).plan
        done = mcutrain.simulate(
            graph, data=train, validation=test, scheme=scheme, epochs=EPOCHS, seed=seed
        )
        found[scheme] = (plan.sram_bytes, 100 * done.before, 100 * done.accuracy)
        print(f"  {scheme}: {found[scheme]}", flush=True)
    return found


def main() -> None:
    """Print a row for each scheme."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    data, rows = dict(np.load(options.data)), defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for seed in options.seeds:
            for scheme, row in run_seed(seed, data, Path(folder)).items():
                rows[scheme].append(row)
    for scheme, found in rows.items():
        sram, before, after = zip(*found, strict=True)
        means = f"{np.mean(before):.1f} | {np.mean(after):.1f}"
        print(f"| `{scheme}` | {sram[0]:,} | {means} ({min(after):.1f} to {max(after):.1f}) |")


if __name__ == "__main__":
    main()
