"""A classifier of 100 classes: whether its int8 outputs predict what its int32 sums predict.

    .venv/bin/python benchmarks/many_classes.py --shared ../shared --rates 0.3 1.0 --seeds 1

A class is one of CIFAR-10's together with one of ten fixed changes of the image (quarter turns,
inverted, blurred, darker, …). mcunet-5fps gets a new head and learns one sample per update, in the
device's integers; the frozen front is computed once. Printed are, for the last state and the test
images, the accuracy of the int8 outputs and that of the int32 sums, in how many images they name
another class, in how many the winner stands at the end of the range, and the exponent to which the
outputs' scale has grown.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.toolchain import cache_folder
from rich.console import Console
from rich.table import Table

from mcutrain import data
from mcutrain.analysis.cut_step import CutStep, cut_step
from mcutrain.analysis.front import Activations, Cut, all_cuts, cut_before, trunk
from mcutrain.analysis.trial import TrialSettings, train
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import load
from mcutrain.quant import replace_head
from mcutrain.simulation import CompiledSimulator, RunSettings, Samples
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import UpdateScheme, arrange, find_head, parse_scheme

Array = npt.NDArray[Any]

MODEL = "models/mcunet-5fps.int8.tflite"
DATA = "data/cifar10_10k2k.npz"
CHANGES = 10


@dataclass(frozen=True)
class Result:
    """Of the test images: accuracies, and shares of images."""

    outputs: float
    sums: float
    differing: float
    clipped: float
    exponent: int


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--scheme", default="mcunet-5fps-100kb")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.3, 1.0], help="times 1/256")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--residual-bits", type=int, default=4)
    parser.add_argument("--head-residual-bits", type=int, default=8)
    parser.add_argument("--gradients", choices=("int8", "int16"), default="int8")
    arguments = parser.parse_args()
    shared, console = Path(arguments.shared), Console()
    split = dataset(shared / DATA, arguments.samples)
    bits = (arguments.residual_bits, arguments.head_residual_bits)
    scheme = replace(
        parse_scheme(arguments.scheme), residual_bits=bits[0], head_residual_bits=bits[1]
    )
    original = load(shared / MODEL)
    columns = ("int8 %", "sums %", "other class %", "at the end %", "exponent")
    table = Table("rate", "seed", *columns)
    for rate in arguments.rates:
        for seed in range(arguments.seeds):
            settings = TrialSettings(arguments.epochs, rate / 256, seed)
            found = learn(original, split, scheme, settings, arguments.gradients)
            console.print(f"{rate}/256, seed {seed}: {found}")
            shares = (found.outputs, found.sums, found.differing, found.clipped)
            percent = (f"{100 * share:.2f}" for share in shares)
            table.add_row(f"{rate}/256", str(seed), *percent, str(found.exponent))
    console.print(table)


def dataset(path: Path, samples: int) -> data.Split:
    """100 classes; an image's change is its number among those of its class."""
    split = data.load(path)
    names = tuple(f"{name} {change}" for name in split.names for change in range(CHANGES))
    train_part = split.train.take(np.arange(min(samples, len(split.train))))
    return data.Split(*(changed(part, names) for part in (train_part, split.test)))


def changed(part: data.Dataset, names: tuple[str, ...]) -> data.Dataset:
    """Every image changed, and labelled with what it is and how it was changed."""
    x, change = part.x.copy(), np.zeros(len(part), np.int64)
    for label in np.unique(part.y):
        (at,) = np.nonzero(part.y == label)
        change[at] = np.arange(len(at)) % CHANGES
    for number in range(CHANGES):
        x[change == number] = change_of(part.x[change == number], number)
    return data.Dataset(x, part.y * CHANGES + change, names)


def change_of(x: Array, number: int) -> Array:
    """Images uint8 [n, 32, 32, 3] after one of the changes."""
    if number < 4:
        return np.rot90(x, number, (1, 2))
    stripes = np.indices(x.shape[1:3]).sum(axis=0) % 8 < 2
    others = (
        lambda: 255 - x,
        lambda: np.roll(x, 1, axis=3),
        lambda: np.roll(x, (16, 16), axis=(1, 2)),
        lambda: x[:, ::4, ::4].repeat(4, axis=1).repeat(4, axis=2),
        lambda: x // 3,
        lambda: np.where(stripes[None, :, :, None], np.uint8(128), x),
    )
    return others[number - 4]()


def learn(
    original: Graph,
    split: data.Split,
    scheme: UpdateScheme,
    settings: TrialSettings,
    gradients: str,
) -> Result:
    """Train behind the frozen front, and compare outputs and sums."""
    graph = trunk(replace_head(original, find_head(original).node, len(split.names), settings.seed))
    cuts = (all_cuts(graph)[0], last_cut(graph, scheme))
    step = cut_step(graph, scheme, cuts[1])
    train_x, test_x = (activations(graph, cuts, x) for x in quantized(graph, split))
    simulator = CompiledSimulator(step.plan(gradients), seed=settings.seed + 1)
    train(simulator, step, train_x, split.train.y, settings)
    return compared(simulator, step, test_x, split.test.y)


def last_cut(graph: Graph, scheme: UpdateScheme) -> Cut:
    """The latest cut before all that the scheme trains."""
    _, updates = arrange(scheme, graph)
    reads = (i for i, n in enumerate(graph.nodes) if not updates.keys().isdisjoint(n.inputs))
    return cut_before(all_cuts(graph), min(reads))


def quantized(graph: Graph, split: data.Split) -> tuple[Array, Array]:
    """Training and test images as the network takes them."""
    kind = graph.tensors[graph.inputs[0]].type
    samples = Samples.prepare(split, kind.shape[1:], kind.scale, kind.zero_point, RunSettings())
    return samples.train(np.arange(len(split.train)), 0, 0), samples.test(0, len(split.test))


def activations(graph: Graph, cuts: tuple[Cut, ...], x: Array) -> Array:
    """The images at the last cut, kept in the cache."""
    return Activations(graph, cuts, x, cache_folder() / "many-classes").at(cuts[-1])


def compared(simulator: CompiledSimulator, step: CutStep, x: Array, y: Array) -> Result:
    """The int8 outputs' classes, and those of the sums: a step at rate 0 changes no weight."""
    x = step.ordered(x)
    outputs, saved = simulator.infer(x), simulator.save()
    _, sums = simulator.train(x, y, [LearningRate.of(0)] * len(y))
    simulator.load(saved)
    classes = outputs.argmax(axis=1)
    name = simulator.plan.training.output_exponent
    return Result(
        float((classes == y).mean()),
        float((sums == y).mean()),
        float((classes != sums).mean()),
        float((outputs.max(axis=1) == 127).mean()),
        0 if name is None else int(simulator.state[name][0]),
    )


if __name__ == "__main__":
    main()
