"""How much faster a new head should learn than the layers before it, on validation data.

    .venv/bin/python benchmarks/head_rate.py --shared ../shared --model mcunet-5fps.int8.tflite \
        --data ../shared/data/cifar10_10k2k.npz caltech101.npz --schemes head mcunet-5fps-49kb

A data set is an .npz file or a folder, as mcutrain reads it. A third of its training samples, of
each class alike, judges; its test part is not looked at. The order of the samples and the rounding
follow from the seed. What lies before the first trained layer is computed once. Everything trains
in the device's integers, one sample an update.

Printed are, by scheme and factor on the head's learning rate, the accuracy at the best of the rates
for that factor (and this rate, times 1/256), the mean over the seeds with its standard error, and
the bytes of arena and state. --bits R,H,B takes residual bits of layers and of the head and bits of
biases instead of the scheme's, a row for each.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.toolchain import cache_folder
from rich.console import Console
from rich.table import Table

from mcutrain import data, prepare
from mcutrain.analysis.cut_step import cut_step
from mcutrain.analysis.front import Activations, Cut, all_cuts, cut_before, trunk
from mcutrain.analysis.trial import TrialSettings, compiled, evaluate, train
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import load
from mcutrain.quant import replace_head
from mcutrain.simulation import RunSettings, Samples
from mcutrain.sparse import UpdateScheme, arrange, find_head, parse_scheme
from mcutrain.sparse.scheme import USUAL_BIAS_BITS, USUAL_BITS, USUAL_HEAD_BITS

Array = npt.NDArray[Any]
JUDGES = 1 / 3
USUAL = f"{USUAL_BITS},{USUAL_HEAD_BITS},{USUAL_BIAS_BITS}"


@dataclass(frozen=True)
class Problem:
    """A network and samples as it takes them; judge_x, judge_y: that it does not learn."""

    model: Graph
    classes: int
    x: Array
    y: Array
    judge_x: Array
    judge_y: Array

    @staticmethod
    def of(model: Graph, path: Path, samples: int | None) -> Problem:
        """Split a data set's training part into samples to learn from and samples to judge by."""
        whole = data.load(path, least_classes=2).train
        whole = whole if samples is None else whole.drawn(min(samples, len(whole)), 0)
        learnt, judges = (whole.take(i) for i in data.stratified(whole.y, JUDGES, 0))
        kind = model.tensors[model.inputs[0]].type
        split = data.Split(learnt, judges)
        made = Samples.prepare(split, kind.shape[1:], kind.scale, kind.zero_point, RunSettings())
        x, judge_x = made.train(np.arange(len(learnt)), 0, 0), made.test(0, len(judges))
        return Problem(model, len(whole.names), x, learnt.y, judge_x, judges.y)

    def trunk(self) -> Graph:
        """With a new head."""
        return trunk(replace_head(self.model, find_head(self.model).node, self.classes))


def main() -> None:
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--model", default="mcunet-5fps.int8.tflite", help="in shared/models")
    parser.add_argument("--data", nargs="+", type=Path, required=True)
    parser.add_argument("--schemes", nargs="+", default=["head", "mcunet-5fps-49kb"])
    parser.add_argument("--rates", nargs="+", type=float, default=[0.1, 0.3, 1.0])
    parser.add_argument("--factors", nargs="+", type=float, default=[1, 4, 8, 16, 32])
    parser.add_argument("--bits", nargs="+", default=[USUAL], metavar="R,H,B")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--samples", type=int, help="of the training part, to learn and to judge")
    given = parser.parse_args()
    model, console = load(Path(given.shared) / "models" / given.model), Console(width=140)
    for path in given.data:
        problem = Problem.of(model, path, given.samples)
        title = f"{given.model}, {path.stem}: {len(problem.y)} samples, {given.epochs} epochs"
        factors = (f"x {factor:g}" for factor in given.factors)
        table = Table("scheme", "bits", "bytes", *factors, title=title)
        for name, bits in itertools.product(given.schemes, given.bits):
            scheme = _with_bits(parse_scheme(name), bits)
            needed = prepare(model, scheme, classes=problem.classes).plan.sram_bytes
            table.add_row(name, bits, f"{needed:,}", *_cells(problem, scheme, given))
        console.print(table)


def _with_bits(scheme: UpdateScheme, bits: str) -> UpdateScheme:
    residual, head, bias = map(int, bits.split(","))
    return replace(scheme, residual_bits=residual, head_residual_bits=head, bias_bits=bias)


def _cells(problem: Problem, scheme: UpdateScheme, given: argparse.Namespace) -> Iterator[str]:
    """A cell for each factor, at the rate that is best in the mean."""
    cut, x, judge_x = _behind_the_front(problem, scheme)
    for factor in given.factors:
        faster = replace(scheme, head_rate=factor)
        by_rate = {
            rate: [
                _accuracy(problem, faster, cut, (x, judge_x), given.epochs, rate / 256, seed)
                for seed in range(given.seeds)
            ]
            for rate in given.rates
        }
        best = max(by_rate, key=lambda rate: float(np.mean(by_rate[rate])))
        yield f"{_with_error(by_rate[best])} ({best:g})"


def _behind_the_front(problem: Problem, scheme: UpdateScheme) -> tuple[Cut, Array, Array]:
    graph = problem.trunk()
    _, updates = arrange(scheme, graph)
    reads = (i for i, n in enumerate(graph.nodes) if not updates.keys().isdisjoint(n.inputs))
    start, cut = all_cuts(graph)[0], cut_before(all_cuts(graph), min(reads))
    cuts = (start,) if cut == start else (start, cut)
    folder = cache_folder() / "head-rate"
    parts = (problem.x, problem.judge_x)
    x, judge_x = (Activations(graph, cuts, part, folder).at(cut) for part in parts)
    return cut, x, judge_x


def _accuracy(
    problem: Problem,
    scheme: UpdateScheme,
    cut: Cut,
    x: tuple[Array, Array],
    epochs: int,
    rate: float,
    seed: int,
) -> float:
    """In percent."""
    step = cut_step(problem.trunk(), scheme, cut)
    simulator = compiled(step, seed)
    train(simulator, step, x[0], problem.y, TrialSettings(epochs, rate, seed))
    return 100 * evaluate(simulator, step, x[1], problem.judge_y)["accuracy"]


def _with_error(found: list[float]) -> str:
    if len(found) == 1:
        return f"{found[0]:.1f}"
    return f"{np.mean(found):.1f} ± {np.std(found, ddof=1) / np.sqrt(len(found)):.1f}"


if __name__ == "__main__":
    main()
