"""benchmarks/float_masters/ is a whole rule of updates, which benchmarks/many_classes.py takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mcutrain.autodiff import TrainGraph, TrainOptions
from mcutrain.codegen import generate
from mcutrain.ops.add_difference import AddDifference
from mcutrain.simulation import CompiledSimulator
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import parse_scheme
from tests.simulation import networks

FOLDER = Path(__file__).parents[2] / "benchmarks" / "float_masters"
RATE = 2.0
SETTLING = 4
"""Steps at rate 0, after which the gradients have their exponents."""


def graph_with(bias_bits: int) -> TrainGraph:
    scheme = replace(parse_scheme("full"), bias_bits=bias_bits)
    return networks.training_graph(networks.residual_network(), scheme, TrainOptions())


def after_one_step(training: TrainGraph) -> CompiledSimulator:
    plan = networks.planned(training)
    project = generate(plan, "full")
    texts = {f"src/{path.name}": path.read_text("utf-8") for path in FOLDER.iterdir()}
    project = replace(project, files={**project.files, **texts})
    simulator = CompiledSimulator(plan, portable=True, extra_flags=("-O1",), project=project)
    x, labels = networks.samples(training.forward, SETTLING + 1, training.classes)
    rates = [LearningRate.of(rate) for rate in (*SETTLING * [0.0], RATE)]
    simulator.train(x, labels, rates)
    return simulator


def shifts(training: TrainGraph) -> dict[str, int]:
    nodes = [node for node in training.graph.nodes if isinstance(node.op, AddDifference)]
    return {node.inputs[1]: node.op.shift for node in nodes}


def test_masters_of_differences_move_as_those_of_whole_biases_do() -> None:
    of_differences, of_biases = graph_with(16), graph_with(32)
    differences, biases = after_one_step(of_differences).state, after_one_step(of_biases).state
    moved = []
    for name, shift in shifts(of_differences).items():
        whole = name.removesuffix(".difference")
        step: npt.NDArray[np.int64] = biases[whole].astype(np.int64) - of_biases.state[whole]
        unit = 1 << shift
        apart = np.abs(differences[name].astype(np.int64) * unit - step)
        assert (2 * apart <= unit + 1).all(), f"{name} is the nearest"
        moved.append(int(np.abs(step).max()) >= unit)
    assert any(moved), "a difference is not 0"
