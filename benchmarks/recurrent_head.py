"""New words for a recurrent network: its head alone is trained, or all, through time; float beside.

    PYTHONPATH=FOLDER_WITH_TORCH python benchmarks/recurrent_head.py --shared ../shared

Spoken words of kws01.npz, 49 steps of 10 features. PyTorch trains 32 units and a head on six of the
twelve classes, by 60 % of their clips. mcutrain quantizes the exported file and trains a new head
for the other six by 60 % of their clips, four epochs at --lr auto; the rest is the test; and, from
the same start, the recurrent layer and a new head (last:1). Float: the same, by SGD of one clip a
step, as many epochs, the best of three rates on the test.
Means and extremes over seeds, of classes, split, network and order.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import mcutrain

UNITS, CLASSES, EPOCHS, SHARE = 32, 6, 4, 0.6
RATES = (0.01, 0.03, 0.1)


class Network(nn.Module):
    """The last step of a recurrent layer, and a head."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], features: int) -> None:
        super().__init__()
        self.front, self.head = kind(features, UNITS, batch_first=True), nn.Linear(UNITS, CLASSES)

    def latent(self, x: torch.Tensor) -> torch.Tensor:
        return self.front(x)[0][:, -1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.latent(x))


def taught(net: Network, x: torch.Tensor, y: torch.Tensor) -> Network:
    """Adam, batches of 32."""
    adam = torch.optim.Adam(net.parameters(), 5e-3)
    for _ in range(25):
        for index in torch.randperm(len(x)).split(32):
            adam.zero_grad()
            nn.functional.cross_entropy(net(x[index]), y[index]).backward()
            adam.step()
    return net.eval()


def percent(logits: torch.Tensor, y: torch.Tensor) -> float:
    """How many are right."""
    return 100 * float((logits.argmax(1) == y).double().mean())


def in_float(net: Network, train: Any, test: Any, trains_all: bool) -> float:
    """Accuracy of the best rate, of a new head alone or of all."""
    found = []
    for rate in RATES:
        own = copy.deepcopy(net)
        own.head = nn.Linear(UNITS, CLASSES)
        sgd = torch.optim.SGD((own if trains_all else own.head).parameters(), rate)
        for _ in range(EPOCHS):
            for i in torch.randperm(len(train[0])):
                sgd.zero_grad()
                logits = own(train[0][i : i + 1])
                nn.functional.cross_entropy(logits, train[1][i : i + 1]).backward()
                sgd.step()
        with torch.no_grad():
            found.append(percent(own(test[0]), test[1]))
    return max(found)


def parts(x: np.ndarray, y: np.ndarray, classes: np.ndarray, rng: np.random.Generator) -> Any:
    """Clips of these classes, to train and to test; labels count from 0."""
    chosen = rng.permutation(np.flatnonzero(np.isin(y, classes)))
    labels = np.searchsorted(np.sort(classes), y[chosen])
    cut = int(SHARE * len(chosen))
    return (x[chosen[:cut]], labels[:cut]), (x[chosen[cut:]], labels[cut:])


def run_seed(kind: type[nn.LSTM] | type[nn.GRU], seed: int, data: Any, folder: Path) -> Any:
    """Percent at home in float; of new words before, after by head and by all, int8 and float."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    x, y = data
    classes = rng.permutation(int(y.max()) + 1)
    home, new = (parts(x, y, some, rng) for some in (classes[:CLASSES], classes[CLASSES:]))
    as_torch = [[tuple(map(torch.from_numpy, part)) for part in pair] for pair in (home, new)]
    net = taught(Network(kind, x.shape[-1]), *as_torch[0][0])
    path = folder / f"{kind.__name__}{seed}.onnx"
    torch.onnx.export(net, torch.zeros((1, *x.shape[1:])), str(path), dynamo=False)
    graph = mcutrain.quantize(path, home[0][0], folder / f"q{path.name}").graph
    done = [
        mcutrain.simulate(
            graph,
            new[0],
            validation=new[1],
            scheme=scheme,
            classes=CLASSES,
            epochs=EPOCHS,
            seed=seed,
        )
        for scheme in ("head", "last:1")
    ]
    at_home = percent(net(as_torch[0][1][0]), as_torch[0][1][1])
    floats = [in_float(net, *as_torch[1], trains_all) for trains_all in (False, True)]
    return at_home, 100 * done[0].before, *(100 * one.accuracy for one in done), *floats


def main() -> None:
    """Print a row for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--kinds", nargs="+", choices=("GRU", "LSTM"), default=["GRU", "LSTM"])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with np.load(arguments.shared / "data/kws01.npz") as file:
        x, y = file["x"][..., 0].astype(np.float32), file["y"].astype(np.int64)
    data = (x - x.mean((0, 1))) / x.std((0, 1)), y
    rows = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for kind in (getattr(nn, name) for name in arguments.kinds):
            for seed in arguments.seeds:
                rows[kind.__name__].append(run_seed(kind, seed, data, Path(folder)))
                print(
                    kind.__name__, seed, *(f"{v:.1f}" for v in rows[kind.__name__][-1]), flush=True
                )
    for name, found in rows.items():
        cells = (
            f"{np.mean(column):.1f} ({min(column):.1f} to {max(column):.1f})"
            for column in zip(*found, strict=True)
        )
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
