"""How long two windows of steps have to be to say which tensors help.

    .venv/bin/python benchmarks/elastic_windows.py --shared ../shared
    .venv/bin/python benchmarks/elastic_windows.py --demo

A static run of one epoch, whose states are kept every few steps. For each length of a window: the
importances of all pairs of windows that follow one another, as `simulate --elastic` computes them.
`helped`: of how many tensors they are positive, which of noise are half of them; the warning of an
elastic run compares with that. `alike`: the mean correlation of the tensors' shares of the
importance in one pair of windows and in the next.
"""

from __future__ import annotations

import argparse
import itertools
import os
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from mcutrain import data, demo, prepare
from mcutrain.features.elastic.selector import LEAST_IMPORTANCE, Decision, doubt, importance
from mcutrain.pipeline import load
from mcutrain.simulation import Run, RunSettings, Samples

KEPT = 4
WINDOWS = (4, 8, 20, 40, 100, 200, 400)


def main() -> None:
    """Print a table, a row for each length of a window."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--scheme")
    parser.add_argument("--samples", type=int, default=2000)
    options = parser.parse_args()
    shared = Path(options.shared)
    model = demo.MODEL if options.demo else shared / "models/mcunet-5fps.int8.tflite"
    split = data.load(demo.IMAGES if options.demo else shared / "data/cifar10_10k2k.npz")
    count = min(options.samples, len(split.train))
    split = data.Split(split.train.subset(count), split.test.subset(10))
    scheme = options.scheme or ("last:10" if options.demo else "mcunet-5fps-100kb")
    rate, classes = (0.01, None) if options.demo else (0.1 / 256, 10)
    step = prepare(load(model), scheme, classes=classes, elastic=True)
    x, settings = step.input_type, RunSettings(1, rate, flip=True, test_every=0)
    prepared = Samples.prepare(split, x.shape[1:], x.scale, x.zero_point, settings)
    run = Run(step.simulator(seed=1), prepared, settings, chunk=KEPT)
    states = [run.begin]
    run.train(lambda _: states.append(run.state.saved))
    table = Table("steps of a window", "pairs", "helped", "alike", "warned")
    for window in WINDOWS:
        each = window // KEPT
        found = [
            np.array(importance(step.plan, states[first : first + 2 * each + 1 : each]), float)
            for first in range(0, len(states) - 2 * each, 2 * each)
        ]
        decisions = [Decision(0, (), tuple(map(int, one))) for one in found]
        helped = np.mean([one > LEAST_IMPORTANCE for one in found])
        alike = [_correlation(a, b) for a, b in itertools.pairwise(found)]
        table.add_row(
            f"{window}",
            f"{len(found)}",
            f"{100 * helped:.0f} %",
            f"{np.mean(alike):.2f}" if alike else "",
            "yes" if doubt(decisions, window) else "no",
        )
    Console().print(table)


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    """0 if one says the same of all tensors."""
    return float(np.corrcoef(a, b)[0, 1]) if a.std() > 0 and b.std() > 0 else 0.0


if __name__ == "__main__":
    main()
