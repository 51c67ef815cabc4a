"""What a training step costs from its latent on: bytes, instructions, time, for every scheme.

    .venv/bin/python benchmarks/latent.py --shared ../shared [--board nucleo-f446re]

front: of an inference's multiply-accumulates before the latent. M instructions: of a training step,
executed on the virtual board. ms: per step of the generated C on this machine, over --steps random
samples. The states at the end are compared. A new 10-class head, int8 gradients.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mcutrain import pipeline, prepare
from mcutrain.cost.counting import count_instructions
from mcutrain.memplan import find_latent
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse.scheme import shipped_schemes

MODELS = ("mcunet-5fps", "mbv2-w0.35", "proxyless-w0.3")


def main() -> None:
    """Print one table; an assertion fails if a state differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--board", default="stm32f746g-disco")
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    columns = ("scheme", "latent", "bytes", "input", "front")
    table = Table(*columns, "M instructions", "from latent", "share", "ms", "from latent", "share")
    for model in MODELS:
        graph = pipeline.load(Path(arguments.shared) / f"models/{model}.int8.tflite")
        own = [s for s in shipped_schemes() if s.startswith(model)]
        for scheme in sorted(own, key=lambda s: (len(s), s)):
            table.add_row(scheme, *_row(graph, scheme, arguments.board, arguments.steps))
    Console(width=150).print(table)


def _row(graph: Any, scheme: str, board: str, steps: int) -> list[str]:
    step = prepare(graph, scheme, classes=10)
    latent = find_latent(step.plan)
    nodes = [node.name for node in step.plan.nodes]
    counted = count_instructions(step, board)
    before = sum(counted.get(name, 0) for name in nodes[: latent.position])
    total = sum(counted.values())
    x_type = graph.tensors[graph.inputs[0]].type
    random = np.random.default_rng(0)
    x = random.integers(-128, 128, (steps, *x_type.shape[1:])).astype(np.int8)
    labels, rates = np.arange(steps) % 10, [LearningRate.of(0.003)] * steps
    whole, tail = step.simulator(), step.latent_simulator(latent)
    latents = tail.front(x)
    seconds = _seconds(lambda: whole.train(x, labels, rates))
    rest = _seconds(lambda: tail.train(latents, labels, rates))
    assert whole.save() == tail.save(), scheme
    return [
        latent.tensor,
        f"{latent.size_bytes:,}",
        f"{x_type.size_bytes:,}",
        f"{latent.macs / step.plan.training.forward.macs():.0%}",
        f"{total / 1e6:.2f}",
        f"{(total - before) / 1e6:.2f}",
        f"{(total - before) / total:.1%}",
        f"{1e3 * seconds / steps:.2f}",
        f"{1e3 * rest / steps:.2f}",
        f"{rest / seconds:.0%}",
    ]


def _seconds(work: Callable[[], Any]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


if __name__ == "__main__":
    main()
