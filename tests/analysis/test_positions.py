"""What training contributes to a network with a class for each position."""

from __future__ import annotations

import numpy as np

from mcutrain.analysis import trial
from mcutrain.analysis.problem import Problem
from mcutrain.analysis.trial import evaluate
from mcutrain.data import IGNORED, of_arrays
from mcutrain.pipeline import prepare
from tests.simulation import segmentation


class Step:
    """Takes samples as they are. targets: it has none."""

    targets = None

    def ordered(self, x):
        return x


class Simulator:
    """Whose outputs are known. plan: of a network whose outputs have the scale 1."""

    def __init__(self, outputs):
        self.outputs = outputs

    def infer(self, x):
        return self.outputs


def test_labels_of_positions_are_a_problem_of_their_classes():
    split = of_arrays(segmentation.images(20, 1))
    problem = Problem.of(segmentation.unet(), split)
    assert problem.train_y.shape[1:] == (segmentation.SIDE, segmentation.SIDE)


def test_an_answer_is_judged_at_each_position_that_counts(monkeypatch):
    step = prepare(segmentation.unet(), "head")
    outputs = np.array([[9, 0, 0, 9, 9, 0]], np.int8)
    monkeypatch.setattr(trial, "output_exponent", lambda simulator: 0)
    simulator = Simulator(outputs)
    simulator.plan = step.plan
    found = evaluate(simulator, Step(), np.zeros((1, 1)), np.array([[0, IGNORED, 1]], np.uint8))
    scale = step.graph.tensors[step.graph.outputs[0]].type.scale
    right = 1 / (1 + np.exp(-9 * scale))
    assert found["accuracy"] == 1 / 2
    assert abs(found["probability"] - 1 / 2) < 1e-9  # right once, and as sure of what is wrong
    assert abs(found["loss"] + (np.log(right) + np.log(1 - right)) / 2) < 1e-9
