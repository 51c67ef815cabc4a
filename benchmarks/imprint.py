"""Classes that a trained classifier gets later from a few samples each: imprinted, or trained.

    .venv/bin/python benchmarks/imprint.py --shared ../shared --new 3 --shots 5
    .venv/bin/python benchmarks/imprint.py --cost --model mcunet-5fps.int8.tflite

The network learns all classes but --new of them, which the seed draws, then gets these from --shots
samples each: by `mct_imprint`, with replays of old samples after it, by training on these samples
alone, and by training on them together with as many of each old class, of which imprinting needs
none. In the device's integers, batch 1; the classifier alone is trained. Printed is the accuracy on
test samples of the old and of the new classes, and of both alike. --cost: instructions on emulated
chips, and bytes, of a program that imprints.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from mcutrain_host.build import build
from mcutrain_host.client import Device
from mcutrain_host.memory import linked_memory
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink
from rich.console import Console
from rich.table import Table

from mcutrain import data, pipeline, prepare
from mcutrain.autodiff import Classifier
from mcutrain.codegen import Interface
from mcutrain.ir.graph import Graph
from mcutrain.memplan import find_latent
from mcutrain.pipeline import TrainingStep
from mcutrain.runs.head_start import STARTS, Start, centre_of_samples, head_start_of
from mcutrain.runs.sample_reading import load_data
from mcutrain.runs.training import prepare_run
from mcutrain.simulation import LatentSamples, LatentSimulator, RunSettings, Samples
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import UpdateScheme
from mcutrain.target import load_target

MCUNET, CIFAR = "models/mcunet-5fps.int8.tflite", "data/cifar10_10k2k.npz"
BOARDS = ("mps2-an386", "stm32f746g-disco", "rpi-pico")
EPOCHS_OF_FEW = 20
REPLAYS = 50
Accuracies = tuple[float, float]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--model", help="of --shared's by default: mcunet-5fps")
    parser.add_argument("--data", help="of --shared's by default: CIFAR-10")
    parser.add_argument("--samples", type=int, help="training samples; all by default")
    parser.add_argument("--new", type=int, default=3, help="classes")
    parser.add_argument("--shots", type=int, default=5, help="samples of each")
    parser.add_argument("--epochs", type=int, default=4, help="of the old classes")
    parser.add_argument("--lr", type=float, default=1 / 256, help="per sample")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=STARTS)
    parser.add_argument("--cost", action="store_true")
    arguments = parser.parse_args()
    shared = Path(arguments.shared)
    graph = pipeline.load(Path(arguments.model) if arguments.model else shared / MCUNET)
    if arguments.cost:
        cost(graph)
        return
    file = Path(arguments.data) if arguments.data else shared / CIFAR
    split = load_data(graph, file, 0.5, samples=arguments.samples)
    table = Table("start", "classes", "old %", "new %", "both %")
    for start in arguments.starts:
        rows: dict[str, list[Accuracies]] = {}
        for seed in range(arguments.seeds):
            settings = RunSettings(arguments.epochs, arguments.lr, seed=seed, test_every=0)
            case = Case.of(graph, split, arguments.new, arguments.shots, start, settings)
            for name, found in case.results().items():
                rows.setdefault(name, []).append(found)
        old = len(split.names) - arguments.new
        for name, found in rows.items():
            means = np.mean(found, axis=0)
            both = (old * means[0] + arguments.new * means[1]) / (old + arguments.new)
            table.add_row(start, name, *(f"{100 * share:.1f}" for share in (*means, both)))
    Console().print(table)


@dataclass(frozen=True)
class Case:
    """A network that knows the old classes, and a few samples of new ones, as latents."""

    simulator: LatentSimulator
    samples: LatentSamples
    saved: bytes
    old: int
    few: npt.NDArray[np.int64]
    rehearsed: npt.NDArray[np.int64]
    settings: RunSettings

    @staticmethod
    def of(
        graph: Graph, split: data.Split, new: int, shots: int, start: Start, settings: RunSettings
    ) -> Case:
        """Trained on the old classes."""
        seed, classes = settings.seed, len(split.names)
        old = classes - new
        rng = np.random.default_rng(seed)
        last = [split.names[i] for i in rng.permutation(classes)[:new]]
        split = split.with_classes_last(last, old)
        known = only(split, old)
        first = head_start_of(start, graph, known, classes, seed=seed)
        scheme = UpdateScheme(head_rate=1.0)
        step = prepare(graph, scheme, classes=classes, head_seed=seed, head_start=first)
        saved = prepare_run(step, known, settings).train().saved
        simulator = imprinting(step, centre_of_samples(graph, known, seed=seed), seed)
        samples = samples_of(step, split, settings)
        y = split.train.y
        drawn = [rng.permutation(np.flatnonzero(y == c))[:shots] for c in range(classes)]
        parts = np.concatenate(drawn[old:]), np.concatenate(drawn[:old])
        latents = LatentSamples.of(samples, simulator)
        return Case(simulator, latents, saved, old, *parts, settings)

    def results(self) -> dict[str, Accuracies]:
        """(old, new) after each way, by its name."""
        mixed = np.concatenate([self.few, self.rehearsed])
        found = {"before": self.after(lambda: None), "imprinted": self.after(self.imprint)}
        found[f"imprinted, {REPLAYS} replayed"] = self.after(self.imprint_and_replay)
        found["trained on the few"] = self.after(lambda: self.train(self.few, EPOCHS_OF_FEW))
        found["trained on as many of all"] = self.after(lambda: self.train(mixed, EPOCHS_OF_FEW))
        return found

    def after(self, action) -> Accuracies:
        """From the network that knows the old classes."""
        self.simulator.load(self.saved)
        action()
        test = self.samples.split.test
        outputs = self.simulator.infer(self.samples.test(0, len(test)))
        right = outputs.argmax(axis=1) == test.y
        return float(right[test.y < self.old].mean()), float(right[test.y >= self.old].mean())

    def imprint(self) -> None:
        """Class by class."""
        y = self.samples.split.train.y[self.few]
        for label in range(self.old, self.simulator.plan.training.classes):
            own = self.few[y == label]
            self.simulator.imprint(self.samples.train(own, 0, 0), label, label)

    def imprint_and_replay(self) -> None:
        """With what a ring would remember: samples of the old classes, drawn alike."""
        self.imprint()
        y = self.samples.split.train.y
        known = np.flatnonzero(y < self.old)
        order = np.random.default_rng(self.settings.seed + 1).permutation(known)
        self.train(order[:REPLAYS], 1)

    def train(self, index: npt.NDArray[np.int64], epochs: int) -> None:
        """On these samples, at the rate that the old classes had."""
        rate = self.settings.learning_rate
        assert rate is not None
        for epoch in range(epochs):
            order = index[data.order(len(index), epoch, self.settings.seed)]
            rates = [LearningRate.of(rate)] * len(order)
            labels = self.samples.split.train.y[order]
            self.simulator.train(self.samples.train(order, 0, 0), labels, rates)


def only(split: data.Split, old: int) -> data.Split:
    """The samples of the first classes."""
    parts = [p.take(np.flatnonzero(p.y < old)) for p in (split.train, split.test)]
    return data.Split(*(replace(p, names=split.names) for p in parts))


def samples_of(step: TrainingStep, split: data.Split, settings: RunSettings) -> Samples:
    """As the model takes them."""
    x = step.input_type
    return Samples.prepare(split, x.shape[1:], x.scale, x.zero_point, settings)


def imprinting(step: TrainingStep, centre: Sequence[int], seed: int) -> LatentSimulator:
    """The program, which takes latents."""
    latent = find_latent(step.plan)
    interface = Interface(latent=latent.tensor, centre=tuple(centre))
    return LatentSimulator(step.plan, latent, step.library(interface), seed + 1)


def cost(graph: Graph) -> None:
    """Instructions and bytes on boards."""
    step = prepare(graph, classes=10)
    features = Classifier.of(step.plan.training).features
    columns = ("M instr. of an inference", "of a sample more", "of the row")
    table = Table("board", *columns, "flash more", "SRAM more")
    for board in BOARDS:
        plain, more = (on_board(step, board, (0,) * n) for n in (0, features))
        (_, *counts), memory, before = more[0], more[1], plain[1]
        infer = more[0][0]
        table.add_row(
            board,
            f"{infer / 1e6:.2f}",
            f"{counts[0] - infer:,}",
            f"{counts[1]:,}",
            f"{memory[0] - before[0]:,}",
            f"{memory[1] - before[1]:,}",
        )
    Console().print(table)


def on_board(
    step: TrainingStep, board: str, centre: tuple[int, ...]
) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """Instructions of an inference, a sample of a class, and its row; bytes of flash and SRAM."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        step.firmware(load_target(board), Interface(centre=centre)).write(folder)
        build(folder, None, "-O3")
        memory = linked_memory(folder)
        assert memory is not None
        device = Device(DirectLink(load_machine(folder, LoopbackLink())))
    sample = np.random.default_rng(0).integers(-128, 128, device.identify().input_bytes)
    sizes = memory.flash_bytes, memory.linked_bytes
    device.send_sample(sample.astype(np.int8).tobytes())
    infer = device.infer().cycles
    if not centre:
        return (infer, 0, 0), sizes
    device.send_sample(sample.astype(np.int8).tobytes())
    collected = device.collect(0).cycles
    return (infer, collected, device.imprint(9, 9).cycles), sizes


if __name__ == "__main__":
    main()
