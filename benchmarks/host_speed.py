"""Inference and a training step in the generated C beside onnxruntime's int8 inference, one thread.

    .venv/bin/python benchmarks/host_speed.py --shared ../shared

The same network in both: the `.tflite` file here, its `.qdq.onnx` twin in onnxruntime. The training
step has a new head, batch 1. The programs take turns of ten runs, so that a busy machine is busy
for all of them while each finds its own data in the caches. Ratios are of the fastest runs, which
other programs disturb least.
The title says which bodies the compiler took; --march haswell times those for AVX2 on a newer
machine, where onnxruntime keeps its own kernels. Exits with 1 where a ratio exceeds its bar.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from rich.console import Console
from rich.table import Table

from mcutrain import pipeline, prepare
from mcutrain.simulation import CompiledSimulator, find_compiler
from mcutrain.simulation.build import Compiler, host_flags
from mcutrain.simulation.rates import LearningRate

MOST_TIMES = {"inference": 0.7, "training step": 1.0}
"""What the ratios must not exceed, with AVX2 as with VNNI."""
BODIES = {
    "__AVX512BW__ __AVX512DQ__ __AVX512VL__ __AVX512VNNI__": "AVX-512 and VNNI",
    "__AVX512BW__ __AVX512DQ__ __AVX512VL__": "AVX-512",
    "__AVX2__ __AVXVNNI__": "AVX2 and VNNI",
    "__AVX2__": "AVX2",
    "__x86_64__": "SSE",
    "": "the compiler's own vectors",
}
"""By the macros that mct_simd.h asks for, the first whose macros are all there."""
TURN = 10
RATE = LearningRate.of(0.1 / 256)


def main() -> int:
    """Print one table; 1 if a bar is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--model", default="mcunet-5fps")
    parser.add_argument("--scheme", default="mcunet-5fps-100kb")
    parser.add_argument("--classes", type=int, default=10, help="of the new head that is trained")
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--march", help="what the compiler is told instead of native: haswell")
    parser.add_argument(
        "--stream",
        default="auto",
        choices=["auto", "least"],
        help="auto keeps whole images, as long runs do; least computes row by row",
    )
    arguments = parser.parse_args()
    os.environ["MCT_THREADS"] = "1"
    flags = (f"-march={arguments.march}",) if arguments.march else ()
    compiler = find_compiler()
    runs = programs(arguments, flags)
    title = (
        f"{arguments.model}, {arguments.scheme}, streamed: {arguments.stream}, "
        f"{compiler.version()}, bodies for {bodies(compiler, flags)}, one thread"
    )
    table = Table("", "median ms", "least ms", "ratio", "at most", title=title)
    taken = timed(runs, arguments.repeats)
    times = {name: min(seconds) for name, seconds in taken.items()}
    reference = times["onnxruntime, inference"]
    for name, seconds in times.items():
        most = f"{MOST_TIMES[name]}" if name in MOST_TIMES else ""
        median = 1e3 * float(np.median(taken[name]))
        ratio = f"{seconds / reference:.2f}"
        table.add_row(name, f"{median:.2f}", f"{1e3 * seconds:.2f}", ratio, most)
    Console(width=100).print(table)
    return int(any(times[name] > most * reference for name, most in MOST_TIMES.items()))


def programs(
    arguments: argparse.Namespace, flags: tuple[str, ...]
) -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    models = Path(arguments.shared) / "models"
    graph = pipeline.load(models / f"{arguments.model}.int8.tflite")
    stream = arguments.stream
    step = prepare(graph, arguments.scheme, classes=arguments.classes, stream=stream)
    step, network = step.for_this_computer(), prepare(graph, stream=stream).for_this_computer()
    return {
        "onnxruntime, inference": peer(models / f"{arguments.model}.qdq.onnx"),
        "inference": inference(network, flags),
        "training step": training(step, flags),
    }


def bodies(compiler: Compiler, flags: tuple[str, ...]) -> str:
    """The vectors that the compiler takes."""
    command = [*compiler.command, *host_flags(compiler, False), *flags, "-dM", "-E", "-xc", "-"]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=True)
    macros = {line.split()[1] for line in done.stdout.splitlines()}
    return next(name for needed, name in BODIES.items() if macros >= set(needed.split()))


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


def simulated(step: pipeline.TrainingStep, flags: tuple[str, ...]) -> CompiledSimulator:
    """The generated C, compiled with more flags."""
    return CompiledSimulator(step.plan, step.scheme.name, extra_flags=flags, project=step.project)


def inference(step: pipeline.TrainingStep, flags: tuple[str, ...]) -> Callable[[], object]:
    """One inference of the generated C."""
    simulator, x = simulated(step, flags), sample(step)
    return lambda: simulator.infer(x)


def training(step: pipeline.TrainingStep, flags: tuple[str, ...]) -> Callable[[], object]:
    """One training step of the generated C: forward, loss, backward, update."""
    simulator, x = simulated(step, flags), sample(step)
    return lambda: simulator.train(x, [0], [RATE])


def timed(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each run; the first turn only warms up."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(1 + repeats // TURN):
        for name, run in runs.items():
            for _ in range(TURN):
                begin = time.perf_counter()
                run()
                taken[name].append(time.perf_counter() - begin)
    return {name: seconds[TURN:] for name, seconds in taken.items()}


if __name__ == "__main__":
    sys.exit(main())
