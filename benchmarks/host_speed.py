"""Inference and a training step in the generated C beside onnxruntime's int8 inference, one thread.

    .venv/bin/python benchmarks/host_speed.py --shared ../shared

The same network in both: the `.tflite` file here, its `.qdq.onnx` twin in onnxruntime. The training
step has a new head, batch 1. The programs take turns of ten runs, so that a busy machine is busy
for all of them while each finds its own data in the caches; the times are medians of all runs.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from rich.console import Console
from rich.table import Table

from mcutrain import pipeline, prepare
from mcutrain.simulation import find_compiler
from mcutrain.simulation.rates import LearningRate

MOST_TIMES = {"inference": 4, "training step": 8}
"""What the ratios must not exceed."""
TURN = 10
RATE = LearningRate.of(0.1 / 256)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--model", default="mcunet-5fps")
    parser.add_argument("--scheme", default="mcunet-5fps-100kb")
    parser.add_argument("--classes", type=int, default=10, help="of the new head that is trained")
    parser.add_argument("--repeats", type=int, default=500)
    arguments = parser.parse_args()
    models = Path(arguments.shared) / "models"
    graph = pipeline.load(models / f"{arguments.model}.int8.tflite")
    step = prepare(graph, arguments.scheme, classes=arguments.classes)
    runs = {
        "onnxruntime, inference": peer(models / f"{arguments.model}.qdq.onnx"),
        "inference": inference(prepare(graph)),
        "training step": training(step),
    }
    compiler = find_compiler()
    title = f"{arguments.model}, {arguments.scheme}, {compiler.version()}, one thread"
    table = Table("", "median ms", "ratio", "at most", title=title)
    times = medians(runs, arguments.repeats)
    reference = times["onnxruntime, inference"]
    for name, seconds in times.items():
        most = f"{MOST_TIMES[name]}" if name in MOST_TIMES else ""
        table.add_row(name, f"{1e3 * seconds:.2f}", f"{seconds / reference:.2f}", most)
    Console(width=100).print(table)


def peer(path: Path) -> Callable[[], object]:
    """One inference by onnxruntime's CPU kernels on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (x,) = session.get_inputs()
    shape = [d if isinstance(d, int) else 1 for d in x.shape]
    feed = {x.name: np.random.default_rng(0).normal(size=shape).astype(np.float32)}
    return lambda: session.run(None, feed)


def sample(step: pipeline.TrainingStep) -> np.ndarray:
    """One random image."""
    shape = step.graph.tensors[step.graph.inputs[0]].type.shape
    return np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)


def inference(step: pipeline.TrainingStep) -> Callable[[], object]:
    """One inference of the generated C."""
    simulator, x = step.simulator(), sample(step)
    return lambda: simulator.infer(x)


def training(step: pipeline.TrainingStep) -> Callable[[], object]:
    """One training step of the generated C: forward, loss, backward, update."""
    simulator, x = step.simulator(), sample(step)
    return lambda: simulator.train(x, [0], [RATE])


def medians(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Seconds of each; the first turn only warms up."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(1 + repeats // TURN):
        for name, run in runs.items():
            for _ in range(TURN):
                begin = time.perf_counter()
                run()
                taken[name].append(time.perf_counter() - begin)
    return {name: float(np.median(seconds[TURN:])) for name, seconds in taken.items()}


if __name__ == "__main__":
    main()
