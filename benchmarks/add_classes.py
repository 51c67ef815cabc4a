"""Two keywords that a trained classifier learns later, while the others keep their weights.

    .venv/bin/python benchmarks/add_classes.py --shared ../shared --seeds 3

kws_ref_model gets a new head of 10 classes and learns kws01.npz without the two keywords; then both
are added (`--add-class Up --add-class Yes`) and it learns from samples of all 12. Half of the 1,000
samples are for the test. In the device's integers, batch 1. Printed is the accuracy on test samples
of the 10 old and of the 2 new classes: before the classes are added, when they just were, and after
training. With --rehearsal 0.2 only a fifth of the old classes' samples is learnt from again.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from mcutrain import data, pipeline, prepare
from mcutrain.pipeline import TrainingStep
from mcutrain.runs.training import prepare_run
from mcutrain.simulation import RunSettings
from mcutrain.trained import trained_graph

MODEL = "models/kws_ref_model.tflite"
DATA = "data/kws01.npz"
NEW = ("Up", "Yes")
SCHEMES = ("head", "7:0.5,8:1,bias:4")


@dataclass(frozen=True)
class Result:
    """Shares of test samples: (of the old classes, of the new ones)."""

    before: float
    added: tuple[float, float]
    after: tuple[float, float]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=12, help="before, and after the addition")
    parser.add_argument("--lr", type=float, default=0.004, help="per sample")
    parser.add_argument("--rehearsal", type=float, default=1.0, help="share of the old samples")
    arguments = parser.parse_args()
    shared = Path(arguments.shared)
    split = data.load(shared / DATA, test_share=0.5).with_classes_last(NEW, 10)
    columns = ("old, 10 classes", "old, added", "new, added", "old, trained", "new, trained")
    table = Table("scheme", *(f"{c} %" for c in columns))
    console = Console()
    for scheme in SCHEMES:
        results = []
        for seed in range(arguments.seeds):
            settings = RunSettings(arguments.epochs, arguments.lr, seed=seed)
            results.append(learn(shared / MODEL, split, scheme, settings, arguments.rehearsal))
            console.print(f"{scheme}, seed {seed}: {results[-1]}")
        numbers = np.array([(r.before, *r.added, *r.after) for r in results])
        table.add_row(scheme, *(f"{100 * share:.1f}" for share in numbers.mean(axis=0)))
    console.print(table)


def learn(
    model: Path, split: data.Split, scheme: str, settings: RunSettings, rehearsal: float
) -> Result:
    """Learn the old classes, add the new ones, learn all."""
    original = pipeline.load(model)
    old = len(split.names) - len(NEW)
    first = prepare(original, scheme, classes=old, head_seed=settings.seed)
    saved = trained(first, only(split, split.names[:old]), settings)
    graph = trained_graph(first, saved, original)
    second = prepare(graph, scheme, added=NEW, head_seed=settings.seed)
    mixture = replace(split, train=rehearsed(split.train, old, rehearsal, settings.seed))
    return Result(
        accuracy(first, saved, split.test, old)[0],
        accuracy(second, None, split.test, old),
        accuracy(second, trained(second, mixture, settings), split.test, old),
    )


def only(split: data.Split, names: tuple[str, ...]) -> data.Split:
    """The samples of the first classes."""
    parts = [p.take(np.flatnonzero(p.y < len(names))) for p in (split.train, split.test)]
    return data.Split(*(replace(p, names=names) for p in parts))


def rehearsed(train: data.Dataset, old: int, share: float, seed: int) -> data.Dataset:
    """All samples of the new classes, and a share of the others."""
    place = data.order(len(train), 0, seed) / len(train)
    return train.take(np.flatnonzero((train.y >= old) | (place < share)))


def trained(step: TrainingStep, split: data.Split, settings: RunSettings) -> bytes:
    """The state after a run."""
    return prepare_run(step, split, settings).train().saved


def accuracy(
    step: TrainingStep, saved: bytes | None, test: data.Dataset, old: int
) -> tuple[float, float]:
    """On test samples of the old and of the new classes. saved: None before training."""
    simulator = step.simulator()
    if saved is not None:
        simulator.load(saved)
    right = simulator.infer(test.x).argmax(axis=1) == test.y
    return float(right[test.y < old].mean()), float(right[test.y >= old].mean())


if __name__ == "__main__":
    main()
