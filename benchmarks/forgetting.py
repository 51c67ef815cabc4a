"""Classes that come one after the other: what is forgotten, and what replayed latents keep.

    .venv/bin/python benchmarks/forgetting.py cifar --shared ../shared --jobs 2
    .venv/bin/python benchmarks/forgetting.py kws --shared ../shared --jobs 2
    .venv/bin/python benchmarks/forgetting.py kws --remember --distill 0.5 0.9 0.98

cifar: mcunet-5fps with its 49 KB scheme and a new head learns CIFAR-10 in five tasks of two
classes, each sample once, in the device's integers, from latents. After each new sample R
remembered ones are replayed, drawn from a ring of N latents (mcutrain/simulation/replay.py). joint:
as many steps, over all samples in random order. Printed is the accuracy on the test samples of all
ten classes after each task, with its standard deviation over seeds. The seed chooses the head, the
order of the tasks' classes and of the samples.

kws: kws_ref_model learns ten keywords, then two more are added, and only samples of those two come.
Printed is the accuracy on test samples of the old and of the new classes at the end. --distill: so
large a share of the loss is the distance to what the ten's classifier said, and nothing is
replayed. --scheme: what is trained, in the place of the last two layers and two biases more.

Each way's learning rate, of its new classes, is the one of --rates that is best on a fifth of the
training samples, which its trial leaves out; then it learns from all of them.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from mcutrain import data, pipeline, prepare
from mcutrain.memplan import find_latent
from mcutrain.runs.fronts import latents_of
from mcutrain.runs.sample_reading import model_input
from mcutrain.runs.training import prepare_run
from mcutrain.simulation import LatentSimulator, RunSettings
from mcutrain.simulation.rates import LearningRate
from mcutrain.simulation.replay import with_replays
from mcutrain.trained import trained_graph

Array = npt.NDArray[Any]

CIFAR = ("models/mcunet-5fps.int8.tflite", "data/cifar10_10k2k.npz", "mcunet-5fps-49kb")
KWS = ("models/kws_ref_model.tflite", "data/kws01.npz", "7:0.5,8:1,bias:4")
ADDED = ("Up", "Yes")
CLASSES, CLASSES_OF_TASK = 10, 2
EPOCHS = 12
"""Epochs for the old keywords, and for the new ones."""
FIRST_RATE = 0.004
"""At which the old keywords are learnt, as benchmarks/add_classes.py has it."""
JOINT = -1
CHUNK = 500


@dataclass(frozen=True)
class Trial:
    """A run. remember: of latents; 0 replays nothing, JOINT has all samples at all times.

    is_choice: it is judged by training samples that it leaves out.
    """

    what: str
    shared: Path
    remember: int
    replay: int
    rate: float
    seed: int
    is_choice: bool
    distill: float = 0.0
    scheme: str = ""

    @property
    def name(self) -> str:
        """As the table has it."""
        if self.distill:
            return f"distill {self.distill:g}"
        return {0: "no replay", JOINT: "joint"}.get(self.remember, f"{self.remember:,} latents")


@dataclass(frozen=True)
class Lessons:
    """Latents and labels, to learn from and to be judged by."""

    simulator: LatentSimulator
    x: Array
    y: Array
    test_x: Array
    test_y: Array


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("cifar", "kws"))
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--replay", type=int, default=3, help="remembered samples per new one")
    parser.add_argument("--remember", type=int, nargs="*", default=[50, 200, 1000])
    parser.add_argument("--distill", type=float, nargs="*", default=[])
    parser.add_argument("--scheme", default="")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.001, 0.003, 0.01])
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    run = cifar if arguments.what == "cifar" else kws
    ways = [(0, 0.0), *((0, d) for d in arguments.distill)]
    ways += [(n, 0.0) for n in (*arguments.remember, JOINT)]
    shared, scheme = Path(arguments.shared), arguments.scheme
    made = [
        Trial(arguments.what, shared, n, arguments.replay, rate, 0, True, distill, scheme)
        for n, distill in ways
        for rate in arguments.rates
    ]
    console = Console(width=140)
    with Pool(arguments.jobs) as pool:
        scores = [found[-1] for found in _told(console, made, pool.imap(run, made))]
        rates = {}
        for way in ways:
            of_way = [
                (s, t.rate)
                for s, t in zip(scores, made, strict=True)
                if (t.remember, t.distill) == way
            ]
            rates[way] = max(of_way)[1]
        final = [
            replace(trial, rate=rates[trial.remember, trial.distill], seed=seed, is_choice=False)
            for trial in made[:: len(arguments.rates)]
            for seed in range(arguments.seeds)
        ]
        results = list(_told(console, final, pool.imap(run, final)))
    columns = [f"task {i + 1}" for i in range(5)] if run is cifar else ["old %", "new %", "all %"]
    table = Table("", "rate", *columns)
    for i in range(0, len(final), arguments.seeds):
        found = 100 * np.array(results[i : i + arguments.seeds])
        mean, deviation = found.mean(axis=0), found.std(axis=0, ddof=min(1, len(found) - 1))
        cells = [f"{m:.1f} ± {d:.1f}" for m, d in zip(mean, deviation, strict=True)]
        table.add_row(final[i].name, f"{final[i].rate:g}", *cells)
    console.print(table)


def _told(console: Console, trials: Sequence[Trial], results: Any) -> Any:
    for trial, result in zip(trials, results, strict=True):
        shares = " ".join(f"{100 * share:.1f}" for share in result)
        kind = "choice" if trial.is_choice else f"seed {trial.seed}"
        console.print(f"{trial.name}, rate {trial.rate:g}, {kind}: {shares}")
        yield result


# ---- CIFAR-10 in five tasks ----


def cifar(trial: Trial) -> list[float]:
    """Accuracy on all classes after each task."""
    simulator, parts = _latents(trial.what, trial.shared, trial.seed)
    lessons = _lessons(simulator, parts, trial)
    rng = np.random.default_rng(trial.seed)
    tasks = rng.permutation(CLASSES).reshape(-1, CLASSES_OF_TASK)
    stream = [rng.permutation(np.flatnonzero(np.isin(lessons.y, task))) for task in tasks]
    new = np.concatenate(stream)
    ends = np.cumsum([len(task) for task in stream])
    if trial.remember == JOINT:
        order = np.concatenate([rng.permutation(len(lessons.y)) for _ in range(1 + trial.replay)])
        ends *= 1 + trial.replay
    else:
        replay = trial.replay if trial.remember else 0
        order = with_replays(new, replay, max(trial.remember, 1))
        ends *= 1 + replay
    simulator.reset(trial.seed + 1)
    found, first = [], 0
    for end in ends:
        _train(lessons, order[first:end], trial.rate)
        found.append(float(_right(lessons).mean()))
        first = end
    return found


@cache
def _latents(what: str, shared: Path, seed: int) -> tuple[LatentSimulator, tuple[Array, ...]]:
    """The step, and latents and labels of all training and test samples."""
    model, path, scheme = CIFAR
    step = prepare(pipeline.load(shared / model), scheme, classes=CLASSES, head_seed=seed)
    x = model_input(step.graph)
    split = data.load(shared / path, input_shape=x.shape)
    return _computed(step, split)


def _computed(
    step: pipeline.TrainingStep, split: data.Split
) -> tuple[LatentSimulator, tuple[Array, ...]]:
    simulator = step.latent_simulator(find_latent(step.plan))
    samples = prepare_run(step, split, RunSettings(learning_rate=1.0)).samples
    found = latents_of(samples, simulator)
    return simulator, (found.train.x, found.train.y, found.test.x, found.test.y)


def _lessons(simulator: LatentSimulator, parts: tuple[Array, ...], trial: Trial) -> Lessons:
    """Take the lessons of a trial. A choice is judged on a held-out fifth of the samples."""
    x, y, test_x, test_y = parts
    if not trial.is_choice:
        return Lessons(simulator, x, y, test_x, test_y)
    left_out = np.random.default_rng(trial.seed).permutation(len(y)) < len(y) // 5
    return Lessons(simulator, x[~left_out], y[~left_out], x[left_out], y[left_out])


def _train(lessons: Lessons, order: Array, rate: float) -> None:
    rates = [LearningRate.of(rate)] * CHUNK
    for first in range(0, len(order), CHUNK):
        index = order[first : first + CHUNK]
        lessons.simulator.train(lessons.x[index], lessons.y[index], rates[: len(index)])


def _right(lessons: Lessons) -> Array:
    """Which samples of the test are known."""
    simulator, x = lessons.simulator, lessons.test_x
    found = [simulator.infer(x[i : i + CHUNK]).argmax(axis=1) for i in range(0, len(x), CHUNK)]
    right: Array = np.concatenate(found) == lessons.test_y
    return right


# ---- two added keywords ----


def kws(trial: Trial) -> list[float]:
    """Accuracy on the old classes, the new ones, and all, when the new ones were learnt."""
    found = _old_keywords(trial.shared, trial.seed, trial.distill, trial.scheme)
    simulator, parts, learnt = found
    lessons = _lessons(simulator, parts, trial)
    rng = np.random.default_rng(trial.seed)
    old, new = (np.flatnonzero(is_old) for is_old in (lessons.y < CLASSES, lessons.y >= CLASSES))
    before = np.concatenate([rng.permutation(old) for _ in range(EPOCHS)])
    after = np.concatenate([rng.permutation(new) for _ in range(EPOCHS)])
    group = 1 + trial.replay
    if trial.remember == JOINT:
        count = group * len(after)
        passes = -(-count // len(lessons.y))
        order = np.concatenate([rng.permutation(len(lessons.y)) for _ in range(passes)])[:count]
    elif trial.remember == 0:
        order = after
    else:  # the ring was filled while the old keywords were learnt
        stream = np.concatenate([before, after])
        order = with_replays(stream, trial.replay, trial.remember)[group * len(before) :]
    simulator.load(learnt)
    _train(lessons, order, trial.rate)
    right, is_old = _right(lessons), lessons.test_y < CLASSES
    return [float(right[is_old].mean()), float(right[~is_old].mean()), float(right.mean())]


@cache
def _old_keywords(
    shared: Path, seed: int, distill: float, scheme: str
) -> tuple[LatentSimulator, tuple[Array, ...], bytes]:
    """The step with the added classes, latents and labels, and its state before it learns them."""
    model, path, usual = KWS
    scheme = scheme or usual
    original = pipeline.load(shared / model)
    split = data.load(shared / path, test_share=0.5).with_classes_last(ADDED, CLASSES)
    first = prepare(original, scheme, classes=CLASSES, head_seed=seed)
    known = split.each(lambda part: part.take(np.flatnonzero(part.y < CLASSES)))
    known = known.each(lambda part: replace(part, names=part.names[:CLASSES]))
    saved = prepare_run(first, known, RunSettings(EPOCHS, FIRST_RATE, seed=seed)).train().saved
    graph = trained_graph(first, saved, original)
    second = prepare(graph, scheme, added=ADDED, head_seed=seed, distill=distill)
    needs = second.plan
    print(f"distill {distill:g}: arena {needs.arena_bytes:,}, state {needs.state_bytes:,}")
    simulator, parts = _computed(second, split)
    return simulator, parts, simulator.save()


if __name__ == "__main__":
    main()
