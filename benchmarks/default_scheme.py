"""What `simulate` trains by default for a memory, against the other schemes that fit.

    .venv/bin/python benchmarks/default_scheme.py --shared ../shared --seeds 2

Five tasks, each with a memory and 2,000 training samples at most, 3 epochs:

    small     a network of four convolutions for images of 64x64, which learns ten classes here,
              from random weights, all weights trained; then the same classes of other images,
              inverted and turned by a right angle; nucleo-f446re
    mcunet    mcunet-5fps with a new head for CIFAR-10, in 75 KB and in 150 KB of arena and state
    kws       the keyword network of MLPerf Tiny with its own head, on samples of its own classes;
              nucleo-f446re
    sensor    the demo's network on the images of its sensor, in the 256 KB that are assumed without
              a board

Rows: what `auto_scheme` chooses, the smaller scheme that it names, the head, the most biases and
the most layers from the end that fit (of small networks every number of layers), and the largest
scheme shipped for the network. Accuracies are of test samples, which the choice does not look at.
--lr and --head-rate are the same for all; without, each run finds its rate.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

import mcutrain
from mcutrain import data, demo
from mcutrain.data.transform import resize_bilinear
from mcutrain.errors import McutrainError
from mcutrain.formats import read_float
from mcutrain.functions.memory_limit import MemoryLimit
from mcutrain.ir.graph import Graph
from mcutrain.runs.sample_reading import load_data
from mcutrain.simulation import RunSettings
from mcutrain.sparse import UpdateScheme, find_head, layers_of, parse_scheme
from mcutrain.sparse.scheme import schemes_of
from mcutrain.target import target_of
from mcutrain.trained import trained_graph

SIZE, CHANNELS, CLASSES = 64, (16, 24, 48, 64), 10
FEW_LAYERS = 6
"""Networks with at most so many layers have a row for every number of last layers."""
SAMPLES, TESTS, EPOCHS = 2000, 1000, 3
PRETRAINED, PRETRAINING_EPOCHS, PRETRAINING_RATE = 7000, 12, 0.005
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Task:
    """A model, its data, and what there is for a step. classes: of a new head, or None."""

    name: str
    graph: Graph
    split: data.Split
    classes: int | None
    memory: MemoryLimit


@dataclass(frozen=True)
class Row:
    """A scheme that fits, and what it reached from each seed."""

    name: str
    scheme: str
    sram_bytes: int
    accuracies: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean accuracy over the seeds."""
        return float(np.mean(self.accuracies))


def main() -> None:
    """Print a table for each task, and how far the default is below the best row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--lr", type=float, help="per sample; found for each run by default")
    parser.add_argument("--head-rate", type=float, help="of the scheme's head")
    parser.add_argument("--rows", nargs="+", help="only these, such as default smaller head")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    options = parser.parse_args()
    console, summary = Console(width=150), []
    for name in options.tasks:
        for task in TASKS[name](Path(options.shared)):
            rows: list[Row] = []
            for label, scheme in candidates(task):
                if options.rows and label not in options.rows:
                    continue
                known = next((row for row in rows if row.scheme == scheme), None)
                row = trained(task, label, scheme, options) if known is None else known
                rows.append(replace(row, name=label))
            best = max(rows, key=lambda row: row.mean)
            below = 100 * (best.mean - rows[0].mean)
            summary.append(f"{task.name}: default {below:.1f} points below {best.name}")
            console.print(table(task, rows))
    console.print("\n".join(summary))


def table(task: Task, rows: list[Row]) -> Table:
    """Make a task's table."""
    found = Table("", "scheme", "SRAM", "mean %", "each", title=task.name)
    for row in rows:
        each = " ".join(f"{100 * a:.1f}" for a in row.accuracies)
        found.add_row(row.name, row.scheme, f"{row.sram_bytes:,}", f"{100 * row.mean:.1f}", each)
    return found


def candidates(task: Task) -> Iterator[tuple[str, str]]:
    """Names and schemes that fit, the default first."""
    memory = task.memory
    board: dict[str, Any] = {"board": memory.target} if memory.target else {}
    if memory.target is None and not memory.is_usual:
        board = {"sram": memory.sram_bytes}
    samples = min(SAMPLES, len(task.split.train))
    chosen = mcutrain.auto_scheme(
        task.graph, task.split, classes=task.classes or "keep", samples=samples, **board
    )
    print(f"{task.name}: {chosen.summary()}; smaller: {chosen.smaller}", flush=True)
    yield "default", chosen.scheme
    if chosen.smaller is not None:
        yield "smaller", chosen.smaller.scheme
    yield "head", "head"
    count = len(layers_of(task.graph, find_head(task.graph)))
    for form in ("bias", "last"):
        fit = [k for k in range(count, 0, -1) if fitting(task, f"{form}:{k}")]
        for k in fit if form == "last" and count <= FEW_LAYERS else fit[:1]:
            is_full = form == "last" and k == count
            yield ("everything", "full") if is_full else (f"{form} {k}", f"{form}:{k}")
    shipped = [s.name for s in schemes_of(task.graph.name) if fitting(task, s.name)]
    if shipped:
        yield "shipped, largest", max(shipped, key=lambda name: needs(task, parse_scheme(name)))


def needs(task: Task, scheme: UpdateScheme) -> int:
    """Bytes of SRAM."""
    return task.memory.needs(mcutrain.prepare(task.graph, scheme, classes=task.classes))


def fitting(task: Task, text: str) -> bool:
    """Whether a scheme fits as it is planned."""
    try:
        step = mcutrain.prepare(task.graph, text, classes=task.classes)
    except McutrainError:
        return False
    return task.memory.fits(step)


def trained(task: Task, name: str, text: str, options: argparse.Namespace) -> Row:
    """A row of the table; each accuracy is printed as it comes."""
    scheme = parse_scheme(text)
    if options.head_rate is not None:
        scheme = replace(scheme, head_rate=options.head_rate)
    found = []
    for seed in range(options.seeds):
        result = mcutrain.simulate(
            task.graph,
            task.split,
            scheme,
            classes=task.classes or "keep",
            epochs=EPOCHS,
            learning_rate=options.lr,
            seed=seed,
            samples=min(SAMPLES, len(task.split.train)),
            test_samples=min(TESTS, len(task.split.test)),
        )
        found.append(result.accuracy)
        print(f"{task.name}, {name}, seed {seed}: {100 * result.accuracy:.1f} %", flush=True)
    return Row(name, text, needs(task, scheme), tuple(found))


# ---- the tasks ----


def small(shared: Path) -> Iterator[Task]:
    """A network of one's own, on images that changed after it was trained."""
    cifar = data.load(shared / "data/cifar10_10k2k.npz")
    names, order = cifar.names, data.order(len(cifar.train), 0, 0)
    plain = data.Dataset(_large(cifar.train.x[order]), cifar.train.y[order], names)
    tests = data.Dataset(_large(cifar.test.x), cifar.test.y, names)
    early, late = np.arange(PRETRAINED), np.arange(PRETRAINED, len(plain))
    graph = _pretrained(data.Split(plain.take(early), tests.subset(TESTS)))
    later = data.Split(_changed(plain.take(late)), _changed(tests.take(np.arange(TESTS, 2000))))
    yield Task("small", graph, later, None, MemoryLimit.of(target_of("nucleo-f446re")))


def mcunet(shared: Path) -> Iterator[Task]:
    """A large pretrained network, in two memories."""
    graph = mcutrain.load(shared / "models/mcunet-5fps.int8.tflite")
    split = load_data(graph, shared / "data/cifar10_10k2k.npz")
    for kib in (75, 150):
        memory = MemoryLimit.of(None, 1024 * kib)
        yield Task(f"mcunet, {kib} KB", graph, split, CLASSES, memory)


def kws(shared: Path) -> Iterator[Task]:
    """A network that knows its classes already."""
    graph = mcutrain.load(shared / "models/kws_ref_model.tflite")
    split = load_data(graph, shared / "data/kws01.npz")
    yield Task("kws", graph, split, None, MemoryLimit.of(target_of("nucleo-f446re")))


def sensor(shared: Path) -> Iterator[Task]:
    """The demo's network, where nobody says which board it is for."""
    del shared
    graph = mcutrain.load(demo.MODEL)
    yield Task("sensor", graph, demo.deployed(demo.upright(demo.Size())), None, MemoryLimit.of())


TASKS: dict[str, Callable[[Path], Iterator[Task]]] = {
    "small": small,
    "mcunet": mcunet,
    "kws": kws,
    "sensor": sensor,
}


def _large(x: Array) -> Array:
    return resize_bilinear(x, SIZE, SIZE)


def _changed(images: data.Dataset) -> data.Dataset:
    """Inverted, and turned by a right angle."""
    turned = np.ascontiguousarray(np.rot90(255 - images.x, 1, axes=(1, 2)))
    return replace(images, x=turned)


def _pretrained(split: data.Split) -> Graph:
    """The network after it learnt the plain images, in the device's integers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.onnx"
        onnx.save(_random_model(0), path)
        calibration = split.train.x[:300].astype(np.float32) / 255
        graph = read_float(path).quantize(calibration).graph
    step = mcutrain.prepare(graph, "full")
    settings = RunSettings(PRETRAINING_EPOCHS, PRETRAINING_RATE, flip=True)
    result = mcutrain.train(step, split, settings)
    print(f"small, before its images changed: {100 * result.accuracy:.1f} %", flush=True)
    return trained_graph(step, result.saved, graph)


def _random_model(seed: int) -> onnx.ModelProto:
    """Convolutions of 3x3 and ReLU, each halving the image; mean; classifier."""
    rng = np.random.default_rng(seed)
    weights: dict[str, Array] = {}
    nodes, source, ins = [], "x", 3
    for i, outs in enumerate(CHANNELS):
        weights[f"w{i}"] = rng.normal(0, np.sqrt(2 / (ins * 9)), (outs, ins, 3, 3))
        weights[f"b{i}"] = np.zeros(outs)
        inputs = [source, f"w{i}", f"b{i}"]
        nodes.append(helper.make_node("Conv", inputs, [f"c{i}"], strides=[2, 2], pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        source, ins = f"r{i}", outs
    weights["w"] = rng.normal(0, np.sqrt(1 / ins), (CLASSES, ins))
    weights["b"] = np.zeros(CLASSES)
    nodes.append(helper.make_node("GlobalAveragePool", [source], ["mean"]))
    nodes.append(helper.make_node("Flatten", ["mean"], ["flat"]))
    nodes.append(helper.make_node("Gemm", ["flat", "w", "b"], ["y"], transB=1))
    initial = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in weights.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIZE, SIZE])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, CLASSES])
    graph = helper.make_graph(nodes, "small", [x], [y], initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    main()
