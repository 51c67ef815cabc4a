"""`fit` as it comes against the best of a grid of schemes and rates, for three kinds of data.

    .venv/bin/pip install seglearn==1.2.5 --no-deps     BSD-3; its watch data, as for motion.py
    .venv/bin/python benchmarks/fit_grid.py --shared ../shared --words FOLDER

    images    the demo's network on the images of its sensor, 800 to train and 1,000 to test
    words     kws_ref_model, new head, ten words of FOLDER: a folder of WAV files for each, as for
              taught_word.py; 60 samples of each to train, 240 to test
    motion    the network of motion.py, which has learnt from nine people, on the tenth's exercises;
              his second half is the test

All for nucleo-f446re, with --epochs, or as many as fit takes in its minutes. What does not fit is
left out of the grid. The grid's best is chosen on the test samples, so it is a bound that nobody
reaches without looking at them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import motion
import numpy as np
from rich.console import Console
from rich.table import Table

import mcutrain
from mcutrain import demo, formats
from mcutrain.data import Dataset, Split, order
from mcutrain.errors import PlanError, SchemeError
from mcutrain.runs.sample_reading import load_data
from mcutrain.simulation import RunSettings

BOARD = "nucleo-f446re"
SCHEMES = ("head", "last:1", "last:2", "last:4", "full")
RATES = (0.001, 0.003, 0.01, 0.03, 0.1)
IMAGES, TESTS = 800, 1000
WORDS, TRAINED, TESTED = 10, 60, 240
WEARER, PRETRAINING = 1, RunSettings(10, 0.01, seed=1)


@dataclass(frozen=True)
class Task:
    """A model's file and samples for it."""

    name: str
    model: Path
    split: Split


def main() -> None:
    """Print the table, a kind of data at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, required=True, help="has models/kws_ref_model")
    parser.add_argument("--words", type=Path, help="without it no words are learnt")
    parser.add_argument("--epochs", type=int, help="by default what fit takes in its minutes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("images", "words", "motion"))
    arguments = parser.parse_args()
    console = Console(width=140)
    table = Table("data", "before %", "fit", "fit %", "best of grid", "best %", "fit s", "grid s")
    with tempfile.TemporaryDirectory() as folder:
        for task in tasks(Path(folder), arguments.shared, arguments.words, arguments.only):
            begun = time.process_time()
            fitted = mcutrain.fit(
                task.model,
                task.split,
                Path(folder) / f"{task.name}-fit",
                board=BOARD,
                epochs=arguments.epochs,
                seed=arguments.seed,
            )
            took = time.process_time() - begun
            result = fitted.result
            chosen = f"{result.scheme}, {result.learning_rate:.2g}"
            epochs = len(result.epochs)
            console.print(
                f"{task.name}: fit {chosen}: {100 * result.accuracy:.1f} %, {epochs} epochs"
            )
            begun = time.process_time()
            found = grid(task, epochs, arguments.seed, console.print)
            best = max(found, key=lambda name: found[name])
            table.add_row(
                task.name,
                f"{100 * result.before:.1f}",
                chosen,
                f"{100 * result.accuracy:.1f}",
                best,
                f"{100 * found[best]:.1f}",
                f"{took:.0f}",
                f"{time.process_time() - begun:.0f}",
            )
    console.print(table)


def grid(task: Task, epochs: int, seed: int, say: Callable[[str], Any]) -> dict[str, float]:
    """Accuracy by scheme and rate."""
    found: dict[str, float] = {}
    classes = len(task.split.names)
    for scheme in SCHEMES:
        try:
            mcutrain.plan(task.model, scheme, classes=classes, board=BOARD)
        except (PlanError, SchemeError):
            say(f"{task.name}: {scheme} does not fit {BOARD}, or the model")
            continue
        for rate in RATES:
            result = mcutrain.simulate(
                *(task.model, task.split, scheme),
                learning_rate=rate,
                epochs=epochs,
                test_every=0,
                seed=seed,
            )
            found[f"{scheme}, {rate:g}"] = result.accuracy
        own = [f"{100 * found[f'{scheme}, {rate:g}']:.1f}" for rate in RATES]
        say(f"{task.name}: {scheme}: {' '.join(own)}")
    return found


def tasks(folder: Path, shared: Path, words: Path | None, only: str | None) -> Iterator[Task]:
    """All of them, or one."""
    if only in (None, "images"):
        seen = demo.deployed(demo.upright(demo.Size(train=IMAGES, test=TESTS)))
        yield Task("images", demo.MODEL, seen)
    if words is not None and only in (None, "words"):
        yield spoken(shared / "models" / "kws_ref_model.tflite", folder, words)
    if only in (None, "motion"):
        yield moved(folder)


def spoken(model: Path, folder: Path, words: Path) -> Task:
    """The first words that have enough recordings, by name."""
    names = sorted(path.name for path in words.iterdir() if path.is_dir())[:WORDS]
    place = folder / "words"
    for part, begin, count in (("train", 0, TRAINED), ("test", TRAINED, TESTED)):
        for name in names:
            (place / part / name).mkdir(parents=True)
            files = sorted((words / name).glob("*.wav"))
            for i in order(len(files), 0, 0)[begin : begin + count]:
                (place / part / name / files[i].name).symlink_to(files[i].resolve())
    return Task("words", model, load_data(mcutrain.load(model), place))


def moved(folder: Path) -> Task:
    """What nine people taught the network of motion.py, as a file; the tenth is the data."""
    recorded = motion.load_watch()
    names = tuple(str(name) for name in recorded["y_labels"])
    others, own = motion.split(recorded, WEARER, names)
    graph = motion.random_network(others.train.x, len(names), seed=WEARER)
    graph, _, _ = motion.learnt(graph, others, "full", PRETRAINING)
    path = folder / "motion.tflite"
    formats.write(replace(graph, class_names=names), path)
    parts = (Dataset(np.asarray(part.x), part.y, names) for part in (own.train, own.test))
    return Task("motion", path, Split(*parts))


if __name__ == "__main__":
    main()
