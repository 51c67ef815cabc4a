"""A watch learns its wearer's exercises: 1-D convolutions over windows of 6 motion axes.

    .venv/bin/pip install seglearn==1.2.5 --no-deps     BSD-3; its watch data: 10 people, 50 Hz
    .venv/bin/python benchmarks/motion.py --users 3

Windows of 2 s (100 x 6, half of each overlapping) of accelerometer and gyroscope; 7 shoulder
exercises (D. Burns et al., arXiv:1802.01489). A float network of three 1-D convolutions, a mean and
a classifier, with random weights, is quantized by mcutrain. It learns from all people but one, all
weights trained; then from the first half of that one's exercises, the classifier alone and with one
sparse scheme. The second half is the test. All in the device's integers, batch 1.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

from mcutrain import data, pipeline
from mcutrain.formats import read_float
from mcutrain.ir.graph import Graph
from mcutrain.runs.training import prepare_run
from mcutrain.simulation import RunSettings
from mcutrain.trained import trained_graph

LENGTH, AXES, STRIDE = 100, 6, 50
CHANNELS = (24, 32, 48)
KERNEL = 5
SCHEMES = ("head", "1:0.5,2:1,bias:2")
CALIBRATION = 300
Array = npt.NDArray[Any]


def main() -> None:
    """Print the table, a person at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=3, help="how many people are new in turn")
    parser.add_argument("--epochs", type=int, default=10, help="of the others' windows")
    parser.add_argument("--own-epochs", type=int, default=10, help="of the wearer's")
    parser.add_argument("--lr", type=float, default=0.01, help="per sample")
    arguments = parser.parse_args()
    recorded = load_watch()
    names = tuple(str(name) for name in recorded["y_labels"])
    console = Console()
    table = Table("wearer", "before %", *(f"{s} %" for s in SCHEMES), "SRAM", "ms a step")
    for user in sorted(set(recorded["subject"]))[: arguments.users]:
        others, own = split(recorded, user, names)
        graph = random_network(others.train.x, len(names), seed=int(user))
        settings = RunSettings(arguments.epochs, arguments.lr, seed=int(user))
        graph, before, _ = learnt(graph, others, "full", settings)
        row, facts = [], ""
        for scheme in SCHEMES:
            settings = RunSettings(arguments.own_epochs, arguments.lr, seed=int(user))
            _, after, facts = learnt(graph, own, scheme, settings)
            row.append(after)
            console.print(f"wearer {user}, {scheme}: {100 * before:.1f} %, {100 * after:.1f} %")
        table.add_row(str(user), *(f"{100 * a:.1f}" for a in (before, *row)), *facts.split(";"))
    console.print(table)


def load_watch() -> dict[str, Any]:
    """The recordings: X [time, 6] each, y, subject. The package's own file is pickled."""
    package = importlib.util.find_spec("seglearn")  # importing it would need scikit-learn
    if package is None or package.origin is None:
        raise SystemExit("this needs its data: pip install seglearn==1.2.5 --no-deps")
    path = Path(package.origin).parent / "data" / "watch_dataset.npy"
    found: dict[str, Any] = np.load(path, allow_pickle=True).item()
    return found


def split(
    recorded: dict[str, Any], user: int, names: tuple[str, ...]
) -> tuple[data.Split, data.Split]:
    """(others, own): what is learnt before and by the wearer; both are tested on the wearer."""
    parts: dict[str, list[tuple[Array, int]]] = {"others": [], "first": [], "second": []}
    for x, y, subject in zip(recorded["X"], recorded["y"], recorded["subject"], strict=True):
        if subject != user:
            parts["others"].append((windows(x), y))
            continue
        middle = len(x) // 2
        parts["first"].append((windows(x[:middle]), y))
        parts["second"].append((windows(x[middle:]), y))
    spread = np.concatenate([x for x, _ in parts["others"]]).std(axis=(0, 1))
    sets = {
        name: data.Dataset(
            (np.concatenate([x for x, _ in pairs]) / spread).astype(np.float32),
            np.concatenate([np.full(len(x), y) for x, y in pairs]),
            names,
        )
        for name, pairs in parts.items()
    }
    test = sets["second"]
    return data.Split(sets["others"], test), data.Split(sets["first"], test)


def windows(x: Array) -> Array:
    """[time, axes] → [n, LENGTH, AXES]."""
    starts = range(0, len(x) - LENGTH + 1, STRIDE)
    return np.stack([x[first : first + LENGTH] for first in starts])


def random_network(x: Array, classes: int, seed: int) -> Graph:
    """The quantized network before it learnt anything. x: windows to calibrate with."""
    some = x[data.order(len(x), 0, seed)[:CALIBRATION]].reshape(-1, LENGTH, AXES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "motion.onnx"
        onnx.save(float_model(classes, seed), path)
        return read_float(path).quantize(some).graph


def float_model(classes: int, seed: int) -> onnx.ModelProto:
    """Conv1D and ReLU, three times; mean over time; classifier. x: [1, axes, time]."""
    rng = np.random.default_rng(seed)
    weights: dict[str, Array] = {}
    nodes, source, ins = [], "x", AXES
    for i, outs in enumerate(CHANNELS):
        weights[f"w{i}"] = rng.normal(0, np.sqrt(2 / (ins * KERNEL)), (outs, ins, KERNEL))
        weights[f"b{i}"] = np.zeros(outs)
        inputs, padding = [source, f"w{i}", f"b{i}"], [KERNEL // 2] * 2
        nodes.append(helper.make_node("Conv", inputs, [f"c{i}"], strides=[2], pads=padding))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        source, ins = f"r{i}", outs
    weights["w"] = rng.normal(0, np.sqrt(1 / ins), (classes, ins))
    weights["b"] = np.zeros(classes)
    nodes.append(helper.make_node("GlobalAveragePool", [source], ["mean"]))
    nodes.append(helper.make_node("Flatten", ["mean"], ["flat"]))
    nodes.append(helper.make_node("Gemm", ["flat", "w", "b"], ["y"], transB=1))
    initial = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in weights.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, AXES, LENGTH])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, classes])
    graph = helper.make_graph(nodes, "motion", [x], [y], initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def learnt(
    graph: Graph, lessons: data.Split, scheme: str, settings: RunSettings
) -> tuple[Graph, float, str]:
    """The network after a run, its accuracy on the test, and SRAM and time of a step."""
    step = pipeline.prepare(graph, scheme)
    run = prepare_run(step, lessons, settings)
    run.train()
    step_ms = 1000 * run.state.seconds / run.total
    accuracy = run.state.epochs[-1].test_accuracy
    after = trained_graph(step, run.state.saved, graph)
    return after, accuracy, f"{step.plan.sram_bytes:,};{step_ms:.2f}"


if __name__ == "__main__":
    main()
