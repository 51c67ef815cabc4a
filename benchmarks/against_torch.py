"""A training step in the generated C beside PyTorch's in float, and onnxruntime's int8 inference.

    python benchmarks/export_networks.py nets --names resnet50        # in an environment with torch
    mcutrain quantize nets/resnet50-new.onnx --calibration DATA -o nets/resnet50-new.int8.onnx
    .venv/bin/python benchmarks/against_torch.py nets --names resnet50 --torch PYTHON

One sample a step, 224x224. PyTorch trains the weights and biases of the same layers with SGD, batch
norms as they are in inference, which are folded here. Behind the cut: the step with last:4 of a
sample that was seen before, whose latent is kept, beside PyTorch's whole step. Turns are taken, and
the fastest step of each counts, so that other programs disturb neither more. ms; how many times as
fast in brackets.

--processor counts processor time, for one thread of a computer whose other programs take most of
it, and prints the median ratio of the turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

TURNS = 3
STEPS = 10
SCHEMES = ("last:4", "full")
CUT = SCHEMES[0]
NAMES = ["resnet50", "mobilenet_v3_large", "vit_tiny"]
RATE = 1e-6
CLOCK = "AGAINST_TORCH_CLOCK"
"""By which clock of `time` a child measures."""


def main() -> None:
    """Print a table, or with --child the milliseconds of one program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="with NAME-new.int8.onnx of each network")
    parser.add_argument("--names", nargs="+", default=NAMES)
    parser.add_argument("--torch", default=sys.executable, help="a Python that has torch, timm")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--processor", action="store_true", help="time of one thread's processor")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.processor and options.threads != [1]:
        parser.error("--processor is the time of one thread: give --threads 1")
    if options.child:
        print(json.dumps(CHILDREN[options.child](options.folder, *options.names)))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "network", "threads", "onnxruntime int8", "inference", *SCHEMES, f"{CUT} behind the cut"
    )
    for name in options.names:
        for threads in options.threads:
            table.add_row(name, str(threads), *row(options, name, threads))
    Console(width=120).print(table)


def row(options: argparse.Namespace, name: str, threads: int) -> Sequence[str]:
    """The cells of one network: ours, and PyTorch's time as a multiple."""
    pythons = {"ours": sys.executable, "torch": options.torch, "onnxruntime": sys.executable}
    turns = [
        {
            child: measured(options, python, child, name, threads)
            for child, python in pythons.items()
        }
        for _ in range(options.turns)
    ]
    ours = least_of(turn["ours"] for turn in turns)
    peer = least_of(turn["onnxruntime"] for turn in turns)
    ratios = {key: ratio(turns, key, options.processor) for key in ours}
    cells = [f"{ours[key]:.1f} ({ratios[key]:.2f})" for key in ("inference", *SCHEMES)]
    return (f"{peer['inference']:.1f}", *cells, f"{ours['cut']:.1f} ({ratios['cut']:.1f})")


def ratio(turns: Sequence[Mapping[str, Mapping[str, float]]], key: str, is_median: bool) -> float:
    """PyTorch's time as a multiple of ours: median of the turns, or of the fastest steps."""
    of_torch = CUT if key == "cut" else key
    pairs = [(turn["torch"][of_torch], turn["ours"][key]) for turn in turns]
    if is_median:
        return statistics.median(theirs / ours for theirs, ours in pairs)
    return min(theirs for theirs, _ in pairs) / min(ours for _, ours in pairs)


def measured(
    options: argparse.Namespace, python: str, child: str, name: str, threads: int
) -> dict[str, float]:
    """What a process of its own prints: milliseconds by what is done."""
    number = str(threads)
    environment = {**os.environ, **dict.fromkeys(("MCT_THREADS", "OMP_NUM_THREADS"), number)}
    environment[CLOCK] = "process_time" if options.processor else "perf_counter"
    command = [python, __file__, str(options.folder), "--child", child, "--names", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def least_of(turns: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Of each number the smallest."""
    found: dict[str, float] = {}
    for turn in turns:
        found |= {key: min(ms, found.get(key, ms)) for key, ms in turn.items()}
    return found


def least(run: Callable[[], object]) -> float:
    """Milliseconds of the fastest of some runs; the first only warms up."""
    clock, taken = getattr(time, os.environ.get(CLOCK, "perf_counter")), []
    for _ in range(1 + STEPS):
        begin = clock()
        run()
        taken.append(clock() - begin)
    return 1e3 * min(taken[1:])


def ours(folder: Path, name: str) -> dict[str, float]:
    """The generated C."""
    from mcutrain import pipeline
    from mcutrain.memplan import find_latent
    from mcutrain.simulation.rates import LearningRate

    graph = pipeline.load(folder / f"{name}-new.int8.onnx")
    x = np.random.default_rng(0).integers(-128, 128, graph.tensors[graph.inputs[0]].type.shape)
    x, rate = x.astype(np.int8), LearningRate.of(RATE)
    found = {}
    for scheme in SCHEMES:
        simulator = pipeline.prepare(graph, scheme).simulator()
        found[scheme] = least(lambda simulator=simulator: simulator.train(x, [1], [rate]))
    step = pipeline.prepare(graph, CUT)
    tail = step.latent_simulator(find_latent(step.plan))
    latents = tail.front(x)
    found["cut"] = least(lambda: tail.train(latents, [1], [rate]))
    simulator = pipeline.prepare(graph).simulator()
    return {"inference": least(lambda: simulator.infer(x)), **found}


def peer(folder: Path, name: str) -> dict[str, float]:
    """onnxruntime's kernels on the same file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    path = folder / f"{name}-new.int8.onnx"
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (x,) = session.get_inputs()
    feed = {x.name: np.random.default_rng(0).normal(size=x.shape).astype(np.float32)}
    return {"inference": least(lambda: session.run(None, feed))}


def torch_float(folder: Path, name: str) -> dict[str, float]:
    """PyTorch's training of the same layers."""
    import torch
    from export_networks import NETWORKS

    threads = int(os.environ["OMP_NUM_THREADS"])
    torch.set_num_threads(threads)
    network = NETWORKS[name]().eval()
    x, label = torch.randn(1, 3, 224, 224), torch.tensor([1])
    layers = [m for m in network.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
    found = {}
    with torch.inference_mode():
        found["inference"] = least(lambda: network(x))
    for scheme in SCHEMES:
        kept = layers if scheme == "full" else layers[-int(scheme.split(":")[1]) - 1 :]
        network.requires_grad_(False)
        for layer in kept:
            layer.requires_grad_(True)
        trained = [p for layer in kept for p in layer.parameters()]
        sgd = torch.optim.SGD(trained, lr=RATE)

        def step(sgd: torch.optim.SGD = sgd) -> None:
            sgd.zero_grad()
            torch.nn.functional.cross_entropy(network(x), label).backward()
            sgd.step()

        found[scheme] = least(step)
    return found


CHILDREN = {"ours": ours, "torch": torch_float, "onnxruntime": peer}

if __name__ == "__main__":
    main()
