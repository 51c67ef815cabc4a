"""A fleet of integers beside float FedAvg: the same clients, images of two classes, or speakers.

    python benchmarks/fleet_float.py --shared ../shared
    python benchmarks/fleet_float.py --shared ../shared --speech FOLDER --boards 20

Each of 100 boards has 100 images of two classes of CIFAR-10 (non-IID), of which a new head of
mcunet-5fps learns. With --speech each board is a speaker who says the digits ten times, and a new
head of kws_ref_model learns them; the other speakers, drawn by the seed, are the test. FOLDER has
a folder of WAV files (16 kHz, one channel) for each word, named PERSON_…: the Arabic Speech
Commands of Ghandoura et al. (CC BY 4.0).

The head learns in the device's integers, averaged by `mcutrain.fleets`; and as float32 softmax
regression over the same features, averaged by the samples (McMahan et al., 2017, algorithm 1).
Beside both: all samples on one board. Each way's learning rate is the one of --rates that is best
on a fifth of the training samples, which its trial leaves out. Printed is the accuracy on the test
samples by round, with its deviation over seeds.
"""

from __future__ import annotations

import argparse
import wave
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mcutrain_host.saved import SavedState

from mcutrain import data, pipeline, prepare
from mcutrain.fleets import Contribution, FleetLayout, averaged
from mcutrain.frontends import parse
from mcutrain.memplan import find_latent
from mcutrain.runs.fronts import latents_of
from mcutrain.runs.sample_reading import model_input
from mcutrain.runs.training import prepare_run
from mcutrain.simulation import RunSettings
from mcutrain.simulation.rates import LearningRate

MODEL, IMAGES = "models/mcunet-5fps.int8.tflite", "data/cifar10_10k2k.npz"
SPEECH_MODEL, TRIAL_SEED = "models/kws_ref_model.tflite", 100
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
CLASSES = 10
Array = np.ndarray[Any, Any]
Learn = Callable[[Any, Array], Any]


@dataclass(frozen=True)
class Latents:
    """What the head reads, int8, and labels. owners: of each sample, where boards are people."""

    x: Array
    y: Array
    test_x: Array
    test_y: Array
    owners: Array | None = None

    def parts(self, boards: int, drawn: np.random.Generator) -> list[Array]:
        """A board for each owner, or two shards of sorted labels for each; in order of learning."""
        if self.owners is not None:
            owned = [np.flatnonzero(self.owners == one) for one in np.unique(self.owners)]
            return [drawn.permutation(part) for part in owned]
        order = drawn.permutation(len(self.y))
        shards = np.array_split(order[np.argsort(self.y[order], kind="stable")], 2 * boards)
        mixed = drawn.permutation(2 * boards)
        return [
            drawn.permutation(np.concatenate([shards[a], shards[b]]))
            for a, b in mixed.reshape(boards, 2)
        ]


@dataclass(frozen=True)
class Speech:
    """What each person says. x: what the head reads."""

    x: Array
    y: Array
    people: Array

    @staticmethod
    def read(folder: Path, way: Integers) -> Speech:
        """All recordings of the digits."""
        kind, sounds, labels, people = way.step.input_type, [], [], []
        for label, word in enumerate(DIGITS):
            for path in sorted((folder / word).glob("*.wav")):
                with wave.open(str(path)) as file:
                    sounds.append(np.frombuffer(file.readframes(file.getnframes()), "<i2"))
                labels.append(label)
                people.append(path.name.split("_")[0])
        front = parse("mfcc", kind.shape[1:])
        codes = front.compute(np.stack(sounds), kind.scale, kind.zero_point)
        x = way.simulator.front(codes.reshape(-1, *kind.shape[1:]))
        return Speech(x, np.array(labels), np.array(people))

    def latents(self, boards: int, seed: int) -> Latents:
        """So many people are boards, and the others are the test."""
        drawn = np.random.default_rng(seed).permutation(np.unique(self.people))
        is_board = np.isin(self.people, drawn[:boards])
        x, y, people = self.x[is_board], self.y[is_board], self.people[is_board]
        return Latents(x, y, self.x[~is_board], self.y[~is_board], people)


class Integers:
    """The device's step, and exact averages."""

    def __init__(self, model: Path, seed: int) -> None:
        self.step = prepare(pipeline.load(model), "head", classes=CLASSES, head_seed=seed)
        self.layout = FleetLayout(self.step)
        self.simulator = self.step.latent_simulator(find_latent(self.step.plan), seed=seed + 1)
        self.begin = self.simulator.save()

    def latents(self, shared: Path) -> Latents:
        """Of all images; the front is that of any seed."""
        shape = model_input(self.step.graph).shape
        split = data.load(shared / IMAGES, input_shape=shape)
        samples = prepare_run(self.step, split, RunSettings(learning_rate=1.0)).samples
        found = latents_of(samples, self.simulator)
        return Latents(found.train.x, found.train.y, found.test.x, found.test.y)

    def learnt(self, state: bytes, x: Array, y: Array, rate: float) -> bytes:
        """A board's state after its samples."""
        self.simulator.load(state)
        self.simulator.train(x, y, [LearningRate.of(rate)] * len(y))
        return self.simulator.save()

    def mean(self, state: bytes, learnt: list[tuple[bytes, int]], number: int) -> bytes:
        """The new base."""
        base, total = SavedState.parse(state, "the base"), None
        for i, (raw, count) in enumerate(learnt):
            one = SavedState.parse(raw, "a state")
            part = Contribution.of(self.layout, base, one, f"board{i:04}", count)
            total = part if total is None else total + part
        assert total is not None, "boards learn"
        return averaged(self.layout, base, total, "stochastic", number)

    def right(self, state: bytes, x: Array, y: Array) -> float:
        """Accuracy."""
        self.simulator.load(state)
        return float((self.simulator.infer(x).reshape(len(y), -1).argmax(axis=1) == y).mean())


class Floats:
    """Softmax regression over the same features, float32."""

    def __init__(self, model: Path, seed: int) -> None:
        step = prepare(pipeline.load(model), "head", classes=CLASSES, head_seed=seed)
        kind = find_latent(step.plan).type
        self.scale, self.zero = float(np.ravel(kind.scale)[0]), int(np.ravel(kind.zero_point)[0])
        size = int(np.prod(kind.shape[1:]))
        self.begin = np.zeros((size + 1, CLASSES), np.float32)

    def features(self, x: Array) -> Array:
        """With a one for the bias."""
        flat = self.scale * (x.reshape(len(x), -1).astype(np.float32) - self.zero)
        return np.concatenate([flat, np.ones((len(x), 1), np.float32)], axis=1)

    def learnt(self, state: Array, x: Array, y: Array, rate: float) -> Array:
        """SGD, a sample at a time, as a board."""
        weights = state.copy()
        for one, label in zip(self.features(x), y, strict=True):
            scores = one @ weights
            share = np.exp(scores - scores.max())
            share /= share.sum()
            share[label] -= 1
            weights -= np.float32(rate) * np.outer(one, share)
        return weights

    def mean(self, state: Array, learnt: list[tuple[Array, int]], number: int) -> Array:
        """By samples."""
        total = sum(count for _, count in learnt)
        return np.sum([w * np.float32(n / total) for w, n in learnt], axis=0, dtype=np.float32)

    def right(self, state: Array, x: Array, y: Array) -> float:
        """Accuracy."""
        return float(((self.features(x) @ state).argmax(axis=1) == y).mean())


def rounds(
    way: Any, lessons: Latents, parts: list[Array], rate: float, count: int
) -> Iterator[float]:
    """Accuracy after each round; a single part is a board with all samples."""
    state = way.begin
    for number in range(1, count + 1):
        drawn = np.random.default_rng(number)
        learnt = []
        for part in parts:
            index = drawn.permutation(part)
            learnt.append((way.learnt(state, lessons.x[index], lessons.y[index], rate), len(index)))
        state = way.mean(state, learnt, number) if len(parts) > 1 else learnt[0][0]
        yield way.right(state, lessons.test_x, lessons.test_y)


def without_a_fifth(of: Latents) -> Latents:
    """Of the training samples, which become the test."""
    out = np.random.default_rng(0).permutation(len(of.y)) < len(of.y) // 5
    owners = None if of.owners is None else of.owners[~out]
    return Latents(of.x[~out], of.y[~out], of.x[out], of.y[out], owners)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--speech", type=Path)
    parser.add_argument("--boards", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.001, 0.003, 0.01, 0.03])
    asked = parser.parse_args()
    model = asked.shared / (MODEL if asked.speech is None else SPEECH_MODEL)
    if asked.speech is None:
        images = Integers(model, 0).latents(asked.shared)
    else:
        speech = Speech.read(asked.speech, Integers(model, 0))

    def lessons(seed: int) -> Latents:
        return images if asked.speech is None else speech.latents(asked.boards, seed)

    shown = [n for n in (1, 2, 5, 10, 20, 50, 100) if n <= asked.rounds]
    print(f"{'':24} {'rate':>6} " + " ".join(f"{f'round {n}':>12}" for n in shown))
    for name, kind in (("integers", Integers), ("float32", Floats)):
        for boards in (asked.boards, 1):

            def learnt(
                of: Latents, seed: int, rate: float, kind: Any = kind, boards: int = boards
            ) -> list[float]:
                parts = of.parts(boards, np.random.default_rng(seed))
                parts = parts if boards > 1 else [np.arange(len(of.y))]
                return list(rounds(kind(model, seed), of, parts, rate, asked.rounds))

            trial = without_a_fifth(lessons(TRIAL_SEED))
            judged = {rate: learnt(trial, TRIAL_SEED, rate)[-1] for rate in asked.rates}
            rate = max(judged, key=lambda one: judged[one])
            found = np.array([learnt(lessons(seed), seed, rate) for seed in range(asked.seeds)])
            mean, spread = found.mean(axis=0), found.std(axis=0, ddof=1)
            cells = [f"{100 * mean[n - 1]:5.1f} ± {100 * spread[n - 1]:3.1f}" for n in shown]
            what = f"{name}, {boards} board{'s' if boards > 1 else ''}"
            print(f"{what:24} {rate:6g} " + " ".join(f"{cell:>12}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
