"""How well a board recognizes a word that it was taught: misses at so many false alarms an hour.

    .venv/bin/python benchmarks/taught_word.py --shared ../shared --words FOLDER --noise FOLDER
    .venv/bin/python benchmarks/taught_word.py … --sweep

FOLDER has a folder of WAV files (16 kHz, one channel) for each word, named PERSON_…: the Arabic
Speech Commands of Ghandoura et al. (CC BY 4.0) have 40 words by 30 people, ten times each. Half of
the words and of the people are there to choose parameters by (--sweep), the others are tested.
kws_ref_model learns a word from some utterances of one person, as `generate --app learn` does it:
the front end, the trigger, the lesson and the inferences are the integers of the device. Two other
utterances are listened for, and all other words of the part, by everyone, in one stream of talk
without pauses. Half of kws01.npz is what the model was given at the desk, the other half says what
it forgets.

Beside it: the angle to the mean of the samples, and the head fine-tuned in floating point on the
samples and on kws01. "least score": told at the default margin, but only from a score on that
makes so many alarms. "whitened": the same device, with the model that `mcutrain whiten` makes of
kws01.
"""

from __future__ import annotations

import argparse
import os
import wave
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from mcutrain import pipeline, prepare
from mcutrain.codegen import Interface
from mcutrain.data import Dataset, Split
from mcutrain.frontends import Frontend, parse
from mcutrain.frontends.trigger import windows_heard
from mcutrain.ir.graph import Graph
from mcutrain.memplan import find_latent
from mcutrain.pipeline import TrainingStep
from mcutrain.quant.head import outputs_reaching, replace_head
from mcutrain.quant.imprint import centre_of
from mcutrain.quant.prototypes import class_means
from mcutrain.runs.head_start import PROTOTYPES, head_start_of, whitened_by_samples
from mcutrain.simulation import LatentSimulator
from mcutrain.simulation.field import Decisions, Field, FieldLesson, FieldRing, LearnParams
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import find_head

Array = npt.NDArray[Any]
Score = Callable[[Array], Array]
RATE, TESTED, NEVER = 16_000, 2, -(10**6)
QUIET_RMS = 60
"""Of the noise behind everything that is said."""
NEW = "taught"
RING = 64
LATEST, SAID = 90 * 320, (15 * 320, 98 * 320)
"""Samples behind where an utterance begins: of the window that the trigger finds, of those in which
it may be told."""
SHOTS, ALARMS = (1, 3, 5, 8), (1, 5, 20)


def classes_of(known: tuple[Array, Array]) -> int:
    """How many words a model knows. known: inputs and classes."""
    return int(known[1].max()) + 1


def read(path: Path) -> Array:
    """The samples of a WAV file of 16 kHz, one channel, 16 bits."""
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (RATE, 1, 2), path
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


@dataclass(frozen=True)
class Recordings:
    """Words of many people, each said ten times, and noise. words, people: of this part."""

    folder: Path
    noises: tuple[Array, ...]
    words: tuple[str, ...]
    people: tuple[str, ...]

    @staticmethod
    def parts(folder: Path, noise: Path, seed: int) -> tuple[Recordings, Recordings]:
        """Two parts with no word and no person in common."""
        random = np.random.default_rng(seed)
        words = random.permutation(sorted(p.name for p in folder.iterdir() if p.is_dir()))
        first = folder / str(words[0])
        people = random.permutation(sorted({p.name.split("_")[0] for p in first.glob("*.wav")}))
        noises = tuple(read(p) for p in sorted(noise.glob("*.wav")))
        one, two = (
            Recordings(folder, noises, tuple(map(str, words[i::2])), tuple(map(str, people[i::2])))
            for i in range(2)
        )
        return one, two

    def said(self, word: str, person: str) -> list[Array]:
        """What one says, in order."""
        return [read(p) for p in sorted((self.folder / word).glob(f"{person}_*.wav"))]

    def behind(self, sound: Array, random: np.random.Generator) -> Array:
        """A sound with some noise of QUIET_RMS behind it, int16."""
        noise = self.noises[random.integers(len(self.noises))].astype(np.float64)
        piece = np.take(noise, np.arange(len(sound)) + random.integers(len(noise)), mode="wrap")
        piece *= QUIET_RMS / max(1.0, float(np.sqrt((piece**2).mean())))
        return np.clip(np.rint(sound + piece), -32768, 32767).astype(np.int16)


@dataclass(frozen=True)
class Device:
    """A model that takes features of its classifier, and its front. features: of what it hears."""

    step: TrainingStep
    simulator: LatentSimulator
    listens: Frontend

    @staticmethod
    def of(graph: Graph, known: tuple[Array, Array]) -> Device:
        """A word more than the model has. known: inputs and classes, whose centre is taken."""
        step = prepare(graph, "head", added=(NEW,), stream="off")
        latent = find_latent(step.plan, find_head(step.order.graph).node.inputs[0])
        front = LatentSimulator(step.plan, latent, step.library(Interface(latent=latent.tensor)))
        features = front.front(known[0]).reshape(len(known[0]), -1).astype(np.int64)
        means, _ = class_means(features - latent.type.zero_point, known[1], classes_of(known))
        codes = centre_of(means, latent.type.zero_point)
        interface = Interface(latent=latent.tensor, centre=tuple(codes.tolist()))
        simulator = LatentSimulator(step.plan, latent, step.library(interface))
        order = graph.input_order
        own = None if order is None else order.frontend
        return Device(step, simulator, own or parse("mfcc", step.input_type.shape[1:]))

    def inputs(self, rows: Array, ends: Array) -> Array:
        """The network's inputs of windows that end with these frames."""
        frames, x = self.listens.output_shape[0], self.step.input_type
        found = [self.listens.of_window(rows[e + 1 - frames : e + 1]) for e in ends]
        return self.listens.codes(np.stack(found), x.scale, x.zero_point)

    def outputs(self, features: Array) -> Array:
        """Scores (n, classes) of features (n, …)."""
        made = [self.simulator.infer(features[i : i + 4096]) for i in range(0, len(features), 4096)]
        return np.concatenate(made).astype(np.int64)


@dataclass(frozen=True)
class Heard:
    """Inputs (n, …) of windows that were heard, and the last frame of each."""

    x: Array
    ends: Array


@dataclass(frozen=True)
class Case:
    """A word of a person. samples: an input for each utterance, as the trigger found it, or none.

    heard: all inferences; begins: where each utterance begins, in frames.
    """

    word: str
    samples: tuple[Array | None, ...]
    heard: Heard
    begins: Array

    def folds(self, shots: int) -> Iterator[tuple[list[int], tuple[int, ...]]]:
        """Which utterances are taught, and which are listened for."""
        for first in range(0, len(self.samples), TESTED):
            tested = tuple(range(first, first + TESTED))
            others = [i for i, x in enumerate(self.samples) if x is not None and i not in tested]
            order = np.random.default_rng(first).permutation(others)
            yield [int(i) for i in order[:shots]], tested


@dataclass(frozen=True)
class Material:
    """All that a part of the recordings gives. spoken: the word in each inference of talk."""

    talk: Heard
    spoken: Array
    noise: Heard
    cases: tuple[Case, ...]
    hop: int
    hours: tuple[float, float]

    @staticmethod
    def of(
        part: Recordings, device: Device, words: int, seed: int, hop: int, most: int | None
    ) -> Material:
        """Streams of a part. words: that each person teaches. hop: frames between inferences.

        most: utterances of talk.
        """
        random, front = np.random.default_rng(seed), device.listens
        said = {(w, p): part.said(w, p) for w in part.words for p in part.people}
        clips = [(w, sound) for (w, _), sounds in said.items() for sound in sounds]
        clips = [clips[i] for i in random.permutation(len(clips))[:most]]
        minutes = [clips[i : i + 60] for i in range(0, len(clips), 60)]
        sound = np.concatenate(
            [part.behind(np.concatenate([x for _, x in some]), random) for some in minutes]
        )
        talk, noise = heard(device, sound, hop), heard(device, np.concatenate(part.noises), hop)
        begins = np.cumsum([0, *(len(x) for _, x in clips[:-1])])
        place = np.searchsorted(begins, talk.ends * front.hop, side="right") - 1
        names = np.array([w for w, _ in clips])
        spoken = np.stack([names[place], names[np.maximum(place - 1, 0)]])
        cases = []
        for person in part.people:
            for word in random.choice(part.words, words, replace=False):
                cases.append(_case(part, device, str(word), said[word, person], random, hop))
        hours = tuple(len(x) / RATE / 3600 for x in (sound, np.concatenate(part.noises)))
        return Material(talk, spoken, noise, tuple(cases), hop, hours)


def heard(device: Device, sound: Array, hop: int, first: int = 0) -> Heard:
    """What a device infers on: every `hop` frames, from the first window on, or so much later."""
    stream = device.listens.stream()
    pieces = range(0, len(sound), 60 * RATE)
    rows = np.concatenate([stream.push(sound[i : i + 60 * RATE]) for i in pieces])
    ends = np.arange(device.listens.output_shape[0] - 1 + first, len(rows), hop)
    return Heard(device.inputs(rows, ends), ends)


def _case(
    part: Recordings,
    device: Device,
    word: str,
    sounds: list[Array],
    random: np.random.Generator,
    hop: int,
) -> Case:
    """Utterances between pauses of one and a half seconds."""
    front, pause = device.listens, np.zeros(RATE * 3 // 2)
    begins = [len(pause)]
    for sound in sounds[:-1]:
        begins.append(begins[-1] + len(sound) + len(pause))
    pieces = [piece for sound in sounds for piece in (pause, sound)]
    whole = part.behind(np.concatenate([*pieces, pause]), random)
    rows, found = front.stream().push(whole), windows_heard(front, whole)
    most = LATEST // front.hop
    samples: list[Array | None] = []
    for begin in begins:
        ends = [e for e in found if 0 <= e - begin // front.hop < most]
        samples.append(device.inputs(rows, np.array(ends[:1]))[0] if ends else None)
    at = np.array(begins) // front.hop
    return Case(word, tuple(samples), heard(device, whole, hop, int(random.integers(hop))), at)


@dataclass(frozen=True)
class Way:
    """How a word is learnt. taught: (samples, case's random) to what scores features."""

    name: str
    device: Device
    taught: Callable[[Array], Score]
    usual: int = LearnParams.margin


def margin(scores: Array) -> Array:
    """How far the new word is above all others."""
    found: Array = scores[:, -1] - scores[:, :-1].max(axis=1)
    return found


def clear(scores: Array) -> Array:
    """The new word's score where it is told at the default margin, to choose a least one by."""
    return np.where(margin(scores) >= LearnParams.margin, scores[:, -1], NEVER)


@dataclass(frozen=True)
class Lesson:
    """A lesson as a board does it. ring: what it remembers before. score: what is told by."""

    device: Device
    how: FieldLesson
    ring: tuple[Array, Array] | None = None
    score: Callable[[Array], Array] = margin

    def __call__(self, samples: Array) -> Score:
        """The score after the lesson."""
        simulator, count = self.device.simulator, len(samples)
        new = self.device.step.plan.training.classes - 1
        simulator.reset(1)
        ring = FieldRing(RING if self.ring else 0)
        for x, y in zip(*self.ring, strict=True) if self.ring else ():
            ring = ring.offered(x, int(y))
        params = LearnParams(1)
        field = Field(simulator, Decisions(new + 1, params), ring, simulator.imprint)
        field.gather(new, new, count, self.how)
        for x in samples:
            field.stands_out(x)
        saved = simulator.save()

        def score(features: Array) -> Array:
            simulator.load(saved)
            return self.score(self.device.outputs(features))

        return score


def nearest(centre: Array) -> Callable[[Array], Score]:
    """Hundredths of the cosine between features and the samples' mean, seen from the centre."""

    def taught(samples: Array) -> Score:
        mean = samples.reshape(len(samples), -1).mean(axis=0) - centre
        mean /= np.linalg.norm(mean)

        def score(features: Array) -> Array:
            d = features.reshape(len(features), -1) - centre
            cosine: Array = 100 * (d @ mean) / np.maximum(np.linalg.norm(d, axis=1), 1e-9)
            return cosine

        return score

    return taught


def fine_tuned(
    device: Device, known: tuple[Array, Array], steps: int = 200
) -> Callable[[Array], Score]:
    """The head in floating point, from the imprinted start, on the samples and on what is known."""
    x_known, y_known = known[0].reshape(len(known[0]), -1).astype(np.float64), known[1]
    low = device.simulator.latent.type
    unit = 255 / 8 / low.scale
    device.simulator.reset(1)
    scale = device.step.graph.tensors[device.step.graph.outputs[0]].type.scale
    old = classes_of(known)
    scores = device.outputs(known[0])[:, :old] * scale
    inputs = np.column_stack((x_known - low.zero_point, np.full(len(x_known), unit))) * low.scale
    first = np.linalg.lstsq(inputs, scores, rcond=None)[0]

    def taught(samples: Array) -> Score:
        x = samples.reshape(len(samples), -1).astype(np.float64)
        x = np.column_stack((x - low.zero_point, np.full(len(x), unit))) * low.scale
        d = x[:, :-1].mean(axis=0) - inputs[:, :-1].mean(axis=0)
        row = d * np.sqrt((first[:-1] ** 2).sum(axis=0).mean() / (d @ d))
        level = (inputs @ first).mean() - inputs[:, :-1].mean(axis=0) @ row
        w = np.column_stack((first, [*row, level / (unit * low.scale)]))
        both = np.concatenate((x, inputs))
        y = np.zeros((len(both), old + 1))
        y[: len(x), old] = 1
        y[len(x) + np.arange(len(inputs)), y_known] = 1
        share = np.concatenate(
            (np.full(len(x), 1 / len(x) / old), np.full(len(inputs), 1 / len(inputs)))
        )
        mean, square = np.zeros_like(w), np.zeros_like(w)
        for i in range(steps):  # Adam
            z = both @ w
            p = np.exp(z - z.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            g = both.T @ ((p - y) * share[:, np.newaxis])
            mean, square = 0.9 * mean + 0.1 * g, 0.99 * square + 0.01 * g * g
            step = mean / (1 - 0.9 ** (i + 1))
            w = w - 0.02 * step / (np.sqrt(square / (1 - 0.99 ** (i + 1))) + 1e-8)

        def score(features: Array) -> Array:
            f = features.reshape(len(features), -1).astype(np.float64)
            f = np.column_stack((f - low.zero_point, np.full(len(f), unit))) * low.scale
            return margin(f @ w) / scale

        return score

    return taught


class Features:
    """What a device's front makes of a part's material, computed once."""

    def __init__(self, device: Device, material: Material) -> None:
        front = device.simulator.front
        self.talk, self.noise = front(material.talk.x), front(material.noise.x)
        self.cases = [front(case.heard.x) for case in material.cases]
        self.samples = [
            [None if x is None else front(x[np.newaxis]) for x in case.samples]
            for case in material.cases
        ]


@dataclass
class Results:
    """hits: the score of each utterance that was listened for. talk, noise: of each inference."""

    hits: Array
    talk: list[Array]
    noise: list[Array]
    hours: tuple[float, float]
    params: LearnParams

    def alarms(self, scores: list[Array], hours: float, threshold: float) -> float:
        """False alarms an hour: behind each nothing is told for a while."""
        count = 0
        for s in scores:
            last = -(10**9)
            for i in np.flatnonzero(s >= threshold):
                if i > last + self.params.pause:
                    count, last = count + 1, i
        return count / len(scores) / hours

    def misses(self, threshold: float) -> float:
        """Percent."""
        return 100 * float((self.hits < threshold).mean())

    def at(self, most: float) -> tuple[float, float]:
        """The lowest threshold with at most so many false alarms in an hour of talk; misses."""
        low, high = -200.0, 400.0
        while high - low > 0.5:
            middle = (low + high) / 2
            few = self.alarms(self.talk, self.hours[0], middle) <= most
            low, high = (low, middle) if few else (middle, high)
        return high, self.misses(high)


def in_a_row(scores: Array, agree: int) -> Array:
    """The least of so many scores in a row."""
    found = scores.astype(np.float64).copy()
    for k in range(1, agree):
        found[k:] = np.minimum(found[k:], scores[:-k])
        found[:k] = NEVER
    return found


def measured(
    way: Way, material: Material, features: Features, shots: int, params: LearnParams
) -> Results:
    """All cases and folds."""
    hits, talk, noise = [], [], []
    for case, own, samples in zip(material.cases, features.cases, features.samples, strict=True):
        is_own = (material.spoken == case.word).any(axis=0)
        for taught, tested in case.folds(shots):
            score = way.taught(np.concatenate([samples[i] for i in taught]))
            found = in_a_row(score(own), params.agree)
            for i in tested:
                since = (case.heard.ends - case.begins[i]) * way.device.listens.hop
                hits.append(found[(since >= SAID[0]) & (since <= SAID[1])].max())
            in_talk = in_a_row(score(features.talk), params.agree)
            in_talk[is_own] = NEVER
            talk.append(in_talk)
            noise.append(in_a_row(score(features.noise), params.agree))
    return Results(np.array(hits), talk, noise, material.hours, params)


def windows_of(known: Path, graph: Graph) -> tuple[Array, Array]:
    """What a model knows: x (int8) and y of an .npz file, or WAV files in a folder of each word."""
    if known.is_file():
        with np.load(known) as arrays:
            return arrays["x"], arrays["y"].astype(np.int64)
    order, x = graph.input_order, graph.tensors[graph.inputs[0]].type
    assert order is not None
    assert order.frontend is not None, "raw samples need a front end"
    folders = sorted(p for p in known.iterdir() if p.is_dir())
    files = [(path, y) for y, folder in enumerate(folders) for path in sorted(folder.iterdir())]
    sounds = np.stack([read(path) for path, _ in files])
    y = np.array([y for _, y in files])
    mixed = np.random.default_rng(0).permutation(len(y))
    return order.frontend.compute(sounds[mixed], x.scale, x.zero_point), y[mixed]


def with_one_scale(graph: Graph, split: Split, classes: int) -> Graph:
    """The model; of class means where its words have a weight scale each, as no lesson can use."""
    head = find_head(graph).node
    if len(graph.tensors[head.inputs[1]].type.scales) == 1:
        return graph
    start = head_start_of(PROTOTYPES, graph, split, classes)
    assert start is not None, "prototypes"
    new = replace_head(graph, head, classes, start)
    return outputs_reaching(new, find_head(new).node, start.reach)


class Bench:
    """Both devices, and what is known at the desk."""

    def __init__(self, model: Path, known: Path, *, white_alone: bool = False) -> None:
        graph = pipeline.load(model)
        x, y = windows_of(known, graph)
        self.known, self.tested = (x[::2], y[::2]), (x[1::2], y[1::2])
        self._features: dict[int, Array] = {}
        old = classes_of(self.known)
        data = Dataset(*self.known, tuple(map(str, range(old))), is_in_order=True)
        self.white = Device.of(whitened_by_samples(graph, Split(data, data), old), self.known)
        self.plain = self.white
        if not white_alone:
            self.plain = Device.of(with_one_scale(graph, Split(data, data), old), self.known)

    @cached_property
    def ring(self) -> dict[str, tuple[Array, Array]]:
        """Features of what is known, drawn, for the ring."""
        some = np.random.default_rng(0).permutation(len(self.known[0]))[:RING]
        x, y = self.known[0][some], self.known[1][some]
        devices = {"plain": self.plain, "white": self.white}
        return {name: (device.simulator.front(x), y) for name, device in devices.items()}

    def ways(self, how: FieldLesson) -> list[Way]:
        """What is compared; of one device its own lessons."""
        plain, white = self.plain, self.white
        if plain is white:
            return [
                Way("on the board, whitened", white, Lesson(white, how)),
                *self.least(", whitened", white, how),
            ]
        features = plain.simulator.front(self.known[0])
        centre = features.reshape(len(features), -1).mean(axis=0)
        again = replace(how, replay=2)
        return [
            Way("on the board", plain, Lesson(plain, how)),
            Way("on the board, 2 replays", plain, Lesson(plain, again, self.ring["plain"])),
            Way("angle to the mean, float", plain, nearest(centre)),
            Way("fine-tuned head, float", plain, fine_tuned(plain, (features, self.known[1]))),
            *self.least("", plain, how),
            Way("on the board, whitened", white, Lesson(white, how)),
            *self.least(", whitened", white, how),
            Way(
                "on the board, whitened, 2 replays", white, Lesson(white, again, self.ring["white"])
            ),
        ]

    @staticmethod
    def least(name: str, device: Device, how: FieldLesson) -> list[Way]:
        """What is told at the default margin from a least score on."""
        lesson = Lesson(device, how, score=clear)
        return [Way(f"on the board{name}, least score", device, lesson, LearnParams.least)]

    def _tested(self, device: Device) -> Array:
        """Features of what is known and tested."""
        if id(device) not in self._features:
            self._features[id(device)] = device.simulator.front(self.tested[0])
        return self._features[id(device)]

    def kept(self, way: Way, material: Material, features: Features, shots: int) -> float:
        """Percent of kws01's other half that is right after lessons of some cases."""
        if not isinstance(way.taught, Lesson):
            return float("nan")
        x, right = self._tested(way.device), []
        for case, samples in list(zip(material.cases, features.samples, strict=True))[::6]:
            taught, _ = next(case.folds(shots))
            way.taught(np.concatenate([samples[i] for i in taught]))(x[:1])
            right.append((way.device.outputs(x).argmax(axis=1) == self.tested[1]).mean())
        return 100 * float(np.mean(right))

    def before(self, device: Device) -> float:
        """The same before any lesson."""
        device.simulator.reset(1)
        found = device.outputs(self._tested(device))
        return 100 * float((found.argmax(axis=1) == self.tested[1]).mean())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--words", type=Path, required=True, help="a folder for each word")
    parser.add_argument("--model", type=Path, help="another int8 keyword model")
    parser.add_argument(
        "--known", type=Path, help="x (int8) and y of its words, an .npz file; or a folder of WAVs"
    )
    parser.add_argument("--white-alone", action="store_true", help="only the whitened model")
    parser.add_argument("--clips", type=int, help="utterances of talk, if not all")
    parser.add_argument("--hop", type=int, help="frames from one inference to the next")
    parser.add_argument("--agree", type=int, help="inferences in a row that tell a class")
    parser.add_argument("--noise", type=Path, required=True, help="a folder of WAV files")
    parser.add_argument("--taught", type=int, default=4, help="words of each person")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--sweep", action="store_true", help="on the other words and people")
    arguments = parser.parse_args()
    shared = Path(arguments.shared)
    bench = Bench(
        arguments.model or shared / "models/kws_ref_model.tflite",
        arguments.known or shared / "data/kws01.npz",
        white_alone=arguments.white_alone,
    )
    part = Recordings.parts(arguments.words, arguments.noise, 0)[0 if arguments.sweep else 1]
    default = LearnParams.of(bench.plain.listens)
    asked = {k: v for k in ("hop", "agree") if (v := getattr(arguments, k)) is not None}
    default = replace(default, **asked)
    material = Material.of(part, bench.plain, arguments.taught, 0, default.hop, arguments.clips)
    devices = {id(d): d for d in (bench.plain, bench.white)}
    made = {name: Features(d, material) for name, d in devices.items()}
    console = Console(width=150)
    heads = [f"misses at {n}/h (from)" for n in ALARMS]
    own = ("misses, default", "alarms/h of talk", "of noise")
    if arguments.sweep:
        table = Table("way", "steps", "lr", "agree", *heads, *own)
        usual = (4, 0.01, default.agree)
        lessons = [(n, lr, default.agree) for n in (1, 4, 16) for lr in (0.001, 0.01, 0.1)]
        lessons.insert(0, (0, 0.001, default.agree))
        for steps, lr, agree in (*lessons, *((*usual[:2], n) for n in (1, 3))):
            for way in bench.ways(FieldLesson(LearningRate.of(lr), steps)):
                if not isinstance(way.taught, Lesson) or way.taught.ring:
                    continue
                params = replace(default, agree=agree)
                found = measured(way, material, made[id(way.device)], 5, params)
                table.add_row(way.name, str(steps), str(lr), str(agree), *_cells(found, way))
        console.print(table)
        return
    table = Table("way", "samples", *heads, *own, "old words kept")
    for name, device in (("before", bench.plain), ("before, whitened", bench.white)):
        table.add_row(name, *[""] * (len(heads) + len(own) + 1), f"{bench.before(device):.1f}")
    for way in bench.ways(FieldLesson(LearningRate.of(arguments.lr), arguments.steps)):
        for shots in SHOTS:
            features = made[id(way.device)]
            found = measured(way, material, features, shots, default)
            kept = bench.kept(way, material, features, shots)
            table.add_row(way.name, str(shots), *_cells(found, way), f"{kept:.1f}")
    console.print(table)
    lost = sum(x is None for case in material.cases for x in case.samples)
    print(f"The trigger did not find {lost} of {10 * len(material.cases)} utterances.")
    talk, noise = material.hours
    print(f"{len(material.cases)} words, {talk:.2f} h of talk, {noise:.2f} h of noise")


def _cells(found: Results, way: Way) -> list[str]:
    chosen = [found.at(n) for n in ALARMS]
    cells = [f"{misses:.1f} ({threshold:.0f})" for threshold, misses in chosen]
    usual = way.usual
    alarms = found.alarms(found.talk, found.hours[0], usual)
    noise = found.alarms(found.noise, found.hours[1], usual)
    return [*cells, f"{found.misses(usual):.1f}", f"{alarms:.1f}", f"{noise:.1f}"]


if __name__ == "__main__":
    main()
