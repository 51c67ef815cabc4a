"""Selected against published update schemes at equal SRAM: accuracy on CIFAR-10, several seeds.

    .venv/bin/python benchmarks/selected_schemes.py --shared ../shared --analysis analysis.json

For the true SRAM (arena and trainable state) of each published scheme for mcunet-5fps, the scheme
that `mcutrain select` finds under the same limit; both trained as benchmarks/accuracy.py does it.
The analysis is made of training images only:

    .venv/bin/python benchmarks/selected_schemes.py --shared ../shared --write-data images.npz
    .venv/bin/mcutrain analyze ../shared/models/mcunet-5fps.int8.tflite --data images.npz \
        -o analysis.json
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from statistics import mean
from types import SimpleNamespace

import numpy as np
from accuracy import DATA, MODEL, Case, train
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table

from mcutrain import pipeline
from mcutrain.quant import replace_head
from mcutrain.sparse import find_head, parse_scheme
from mcutrain.sparse.contribution import read_contributions
from mcutrain.sparse.cost import Limits
from mcutrain.sparse.select import Selector

BUDGETS = ("49", "74", "100", "124", "148")
CLASSES = 10
TRAIN_IMAGES = 4000
"""The first ones are trained on; the analysis tests on others, not on the test images."""


def main() -> None:
    """Select, train everything, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--analysis", type=Path)
    parser.add_argument("--measure")
    parser.add_argument("--budgets", nargs="+", default=BUDGETS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--write-data", type=Path, help="write the images of the analysis, stop")
    parser.add_argument("--select-only", action="store_true")
    options = parser.parse_args()
    shared = Path(options.shared)
    if options.write_data:
        write_data(shared, options.write_data)
        return
    pairs = select(shared, options)
    if not options.select_only:
        compare(shared, pairs, options)


def write_data(shared: Path, path: Path, count: int = 1000) -> None:
    """The first training images, and as many behind those that schemes are trained on."""
    with np.load(shared / DATA) as file:
        x, y = file["x_train"], file["y_train"]
    first, held_out = slice(0, count), slice(TRAIN_IMAGES, TRAIN_IMAGES + count)
    parts = {"x_train": x[first], "y_train": y[first], "x_test": x[held_out], "y_test": y[held_out]}
    np.savez(path, **parts)


def select(shared: Path, options: SimpleNamespace) -> dict[str, tuple[str, str, int]]:
    """Budget → published scheme's name, selected scheme's file, SRAM bytes of the published one."""
    graph = pipeline.load(shared / MODEL)
    graph = replace_head(graph, find_head(graph).node, CLASSES)
    contributions = read_contributions(options.analysis, graph).smoothed()
    selector = Selector(graph, contributions, pipeline.device(graph), options.measure)
    pairs = {}
    for budget in options.budgets:
        published = f"mcunet-5fps-{budget}kb"
        sram_bytes = pipeline.prepare(graph, parse_scheme(published)).plan.sram_bytes
        found = selector.select(Limits(sram_bytes))
        file = options.analysis.with_name(f"selected-{budget}kb.toml")
        file.write_text(found.scheme.to_toml(), encoding="utf-8")
        print(
            f"{budget} KB, {sram_bytes:,} bytes: {found.measured.sram_bytes:,} bytes, "
            f"expected {found.head + found.gain:.4f}, bound {found.head + found.bound:.4f}, "
            f"{found.binding}\n{found.scheme.to_toml()}"
        )
        pairs[budget] = (published, str(file), sram_bytes)
    return pairs


def compare(shared: Path, pairs: dict[str, tuple[str, str, int]], options: SimpleNamespace) -> None:
    """Train every scheme with every seed."""
    runs = [
        (budget, i, seed)
        for budget in options.budgets
        for seed in range(options.seeds)
        for i in range(2)
    ]

    def one(budget: str, i: int, seed: int) -> float:
        return train(shared, Case("", pairs[budget][i], True, ""), seed, TRAIN_IMAGES)[0]

    console = Console()
    found = {}
    jobs = Parallel(n_jobs=options.jobs, return_as="generator")(delayed(one)(*r) for r in runs)
    for run, accuracy in zip(runs, jobs, strict=True):
        found[run] = accuracy
        console.print(
            f"{run[0]} KB, {('published', 'selected')[run[1]]}, seed {run[2]}: "
            f"{100 * accuracy:.2f} %"
        )
    table = Table("budget", "SRAM limit", "published, top-1 %", "selected, top-1 %", "better in")
    means = ([], [])
    for budget in options.budgets:
        both = [[found[budget, i, s] for s in range(options.seeds)] for i in range(2)]
        better = sum(b >= a for a, b in zip(*both, strict=True))
        for i in range(2):
            means[i].append(mean(both[i]))
        cells = [" ".join(f"{100 * a:.2f}" for a in part) for part in both]
        table.add_row(
            f"{budget} KB", f"{pairs[budget][2]:,}", *cells, f"{better} of {options.seeds}"
        )
    table.add_row("mean", "", *(f"{100 * mean(m):.2f}" for m in means), "")
    console.print(table)


if __name__ == "__main__":
    main()
