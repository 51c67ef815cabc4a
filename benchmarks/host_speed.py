"""Inference and one training step on this host beside onnxruntime, in one run.

    .venv/bin/python benchmarks/host_speed.py --shared ../shared

One thread each. onnxruntime runs the `.qdq.onnx` twin with all optimisations; ours is the
generated C with the host bodies, and with the portable ones. Rounds are interleaved and medians
taken, so that other load on the machine hits all alike.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from rich.console import Console
from rich.table import Table

from mcutrain import pipeline
from mcutrain.schedule import LearningRate

BATCH = 4  # samples per call, so that the call itself does not count


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--model", default="mcunet-5fps")
    parser.add_argument("--scheme", default="mcunet-5fps-100kb")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--portable", action="store_true", help="time the portable bodies too")
    arguments = parser.parse_args()
    cases = make_cases(
        Path(arguments.shared) / "models", arguments.model, arguments.scheme, arguments.portable
    )
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(arguments.rounds):
        for name, run in cases.items():
            started = time.perf_counter()
            run()
            seconds[name].append((time.perf_counter() - started) / BATCH)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    first = next(iter(medians.values()))
    table = Table("what", "ms per sample", "ratio", title=f"{arguments.model}, one thread")
    for name, value in medians.items():
        table.add_row(name, f"{1000 * value:.3f}", f"{value / first:.2f}")
    Console().print(table)


def make_cases(
    models: Path, model: str, scheme: str, portable: bool
) -> dict[str, Callable[[], object]]:
    """What is timed, by name; the first is what the others are compared with."""
    step = pipeline.prepare(models / f"{model}.int8.tflite", scheme, classes=10)
    x_type = step.graph.tensors[step.graph.inputs[0]].type
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (BATCH, *x_type.shape[1:])).astype(np.int8)
    labels = rng.integers(0, 10, BATCH)
    rates = [LearningRate.of(0.1 / 256)] * BATCH
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    path = str(models / f"{model}.qdq.onnx")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    real = (x.astype(np.float32) - x_type.zero_point) * np.float32(x_type.scale)
    images = np.ascontiguousarray(real.transpose(0, 3, 1, 2))
    cases: dict[str, Callable[[], object]] = {
        "onnxruntime, int8 inference": lambda: [
            session.run(None, {name: images[i : i + 1]}) for i in range(BATCH)
        ]
    }
    for label, is_portable in (("host bodies", False), ("portable bodies", True)):
        if is_portable and not portable:
            continue
        simulator = step.simulator(portable=is_portable)
        cases[f"inference, {label}"] = lambda s=simulator: s.infer(x)  # type: ignore[misc]
        cases[f"training step {scheme}, {label}"] = (
            lambda s=simulator: s.train(x, labels, rates)  # type: ignore[misc]
        )
    return cases


if __name__ == "__main__":
    main()
