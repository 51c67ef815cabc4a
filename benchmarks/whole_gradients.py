"""Gradients of a whole network beside float autograd through its integers.

    PYTHON benchmarks/whole_gradients.py nets/vit_tiny-new.int8.onnx    # where torch is, too

PyTorch computes every node in float64 as its operator says, without rounding, at the integers that
the int8 network has there (a straight-through estimator), and differentiates by itself. Ours: the
generated C, of one noisy sample, as the mean of some updates after the exponents have settled. All
weights and biases count: the least cosine, their mean, how much norms differ at most; the cosine of
a gradient that is 0 counts as 0.

The environment needs mcutrain, too: pip install -e . there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from mcutrain import pipeline
from mcutrain.autodiff import TrainOptions, differentiate
from mcutrain.fixedpoint import multiplier_value
from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.interpret import interpret
from mcutrain.ir.op import ParameterUpdate
from mcutrain.memplan import plan_training
from mcutrain.ops.add import Add
from mcutrain.ops.batch_matmul import BatchMatMul
from mcutrain.ops.concatenation import Concatenation
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.gradients import ACC_DROPPED_BITS
from mcutrain.ops.layer_norm import LayerNorm, factors_scale
from mcutrain.ops.lookup import Lookup
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.slice import Slice
from mcutrain.ops.softmax import Softmax
from mcutrain.ops.training import ApplyUpdate
from mcutrain.ops.transpose import Transpose
from mcutrain.pipeline.losses import loss_of
from mcutrain.simulation import CompiledSimulator
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import find_head

STILL = LearningRate(0, 0)
LABEL = 1


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="an int8 model file")
    parser.add_argument("--settling", type=int, default=400, help="updates")
    parser.add_argument("--updates", type=int, default=16, help="whose mean is compared")
    parser.add_argument("--dtypes", nargs="+", default=["int8", "int16"])
    parser.add_argument("--worst", type=int, default=5, help="tensors to print by name")
    options = parser.parse_args()
    graph = pipeline.load(options.model)
    shape = graph.tensors[graph.inputs[0]].type.shape
    x = np.random.default_rng(0).normal(0, 40, shape).clip(-128, 127).round().astype(np.int8)
    expected = autograd(graph, x)
    console = Console(width=120)
    table = Table("gradients", "tensors", "least cosine", "mean", "norms differ by", "s")
    for dtype in options.dtypes:
        began = time.monotonic()
        found = integer_gradients(graph, x, dtype, options.settling, options.updates)
        angles = {name: cosine(value, expected[name]) for name, value in found.items()}
        norms = [np.linalg.norm(v) / np.linalg.norm(expected[n]) - 1 for n, v in found.items()]
        cells = (f"{min(angles.values()):.4f}", f"{np.mean([*angles.values()]):.4f}")
        differ = f"{100 * np.abs(norms).max():.1f} %"
        table.add_row(dtype, str(len(found)), *cells, differ, f"{time.monotonic() - began:.0f}")
        for name in sorted(angles, key=angles.__getitem__)[: options.worst]:
            console.print(f"{dtype}: {name}: cosine {angles[name]:.4f}")
    console.print(table)


def cosine(a: Any, b: Any) -> float:
    """Cosine of the angle between two tensors."""
    a, b = np.asarray(a, float).ravel(), np.asarray(b, float).ravel()
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norms if norms else 0.0


def integer_gradients(
    graph: Graph, x: Any, dtype: str, settling: int, updates: int
) -> dict[str, Any]:
    """dL/dq by parameter: accumulated over two samples, so that sums are seen after the first."""
    constants = weights(graph)
    scheme = {name: ParameterUpdate((1.0,), 0) for name in constants}
    head, loss = find_head(graph).name, loss_of(graph, "cross-entropy")
    training = differentiate(graph, head, scheme, loss, TrainOptions(dtype, accumulate=2))
    simulator = CompiledSimulator(plan_training(training, 8), "whole")
    train(simulator, x, 2 * settling)
    found: dict[str, Any] = {}
    for _ in range(updates):
        train(simulator, x, 1)
        for name, value in sums(simulator).items():
            found[name] = found.get(name, 0) + value / updates
        train(simulator, x, 1)
    return found


def weights(graph: Graph) -> list[str]:
    """Names of the weights and biases of convolutions and fully connected layers."""
    layers = [node for node in graph.nodes if isinstance(node.op, Conv2D)]
    return [name for node in layers for name in node.inputs[1:]]


def train(simulator: CompiledSimulator, x: Any, steps: int) -> None:
    """Steps that change no parameter."""
    simulator.train(np.repeat(x, steps, axis=0), [LABEL] * steps, [STILL] * steps)


def sums(simulator: CompiledSimulator) -> dict[str, Any]:
    """The accumulated gradients by parameter, as real numbers."""
    training, state = simulator.plan.training, simulator.state
    state_of = {new: name for name, new in training.updated.items()}
    found = {}
    for node in training.apply:
        if isinstance(node.op, ApplyUpdate):
            exponent = int(state[state_of[node.inputs[2]]][0]) + ACC_DROPPED_BITS[node.op.dtype]
            value = state[state_of[node.inputs[1]]] * 2.0**exponent
            along = [-1 if i == node.op.rate_axis % value.ndim else 1 for i in range(value.ndim)]
            rate = node.op.rule.rate
            found[node.inputs[3]] = value * np.reshape(rate, along if len(rate) > 1 else [])
    return found


# ------------------------------------------------------------------- the same in float, by PyTorch


def autograd(graph: Graph, x: Any) -> dict[str, Any]:
    """dL/dq of each weight and bias, L the cross-entropy of the head's sums times their scales."""
    names = [name for node in graph.nodes for name in node.outputs]
    integers = interpret(graph, {graph.inputs[0]: x}, names)
    values = {
        n: torch.tensor(t.data.astype(float)) for n, t in graph.tensors.items() if t.is_constant
    }
    values[graph.inputs[0]] = torch.tensor(x.astype(float))
    trained = weights(graph)
    for name in trained:
        values[name].requires_grad_(True)
    head = find_head(graph)
    for node in graph.nodes:
        if node is head.node:
            break
        exact = real(node.op, node, graph, *(values[n] for n in node.inputs))
        there = torch.tensor(integers[node.outputs[0]].astype(float))
        values[node.outputs[0]] = torch.where(passes(node.op, exact), exact, exact.detach())
        values[node.outputs[0]] = values[node.outputs[0]] + (there - exact).detach()
    bare = replace(head.node.op, requantize=None)
    logits = real(bare, head.node, graph, *(values[n] for n in head.node.inputs)).reshape(1, -1)
    scales = torch.tensor(graph.tensors[head.bias].type.scales, dtype=torch.float64)
    torch.nn.functional.cross_entropy(logits * scales, torch.tensor([LABEL])).backward()
    return {name: values[name].grad.numpy() for name in trained}


def passes(op: Any, exact: torch.Tensor) -> torch.Tensor:
    """Where the operator does not clamp."""
    limits = op.requantize if hasattr(op, "requantize") else op
    low, high = getattr(limits, "low", -128), getattr(limits, "high", 127)
    rounded = exact.detach().round()
    return (rounded >= low) & (rounded <= high)


def factor(op: Any) -> float:
    """Factor of a requantization by one number."""
    return multiplier_value(op.mult_q31, op.shift)


@singledispatch
def real(op: Any, node: Node, graph: Graph, *x: torch.Tensor) -> torch.Tensor:
    """What an operator computes, in stored units, without rounding and clamping."""
    raise NotImplementedError(f"{node.name}: no float twin of {type(op).__name__} here")


@real.register
def _(op: Conv2D, node: Node, graph: Graph, x: Any, w: Any, b: Any) -> torch.Tensor:
    top, bottom, left, right = op.window.padding
    moved = torch.nn.functional.pad(
        (x - op.x_zero_point).permute(0, 3, 1, 2), (left, right, top, bottom)
    )
    y = torch.nn.functional.conv2d(
        moved, w.permute(0, 3, 1, 2), b, stride=op.window.stride, dilation=op.window.dilation
    ).permute(0, 2, 3, 1)
    q = op.requantize
    if q is None:
        return y
    each = [multiplier_value(m, s) for m, s in zip(q.mult_q31, q.shift, strict=True)]
    return y * torch.tensor(each, dtype=torch.float64) + q.zero_point


@real.register
def _(op: Add, node: Node, graph: Graph, a: Any, b: Any) -> torch.Tensor:
    terms = [(v - s.zero_point) * factor(s) for v, s in ((a, op.a), (b, op.b))]
    return (terms[0] + terms[1]) * factor(op.y) * 2.0**op.left_shift + op.y.zero_point


@real.register
def _(op: BatchMatMul, node: Node, graph: Graph, a: Any, b: Any) -> torch.Tensor:
    a, b = a - op.a_zero_point, b - op.b_zero_point
    a = a.transpose(-1, -2) if op.transposed_a else a
    b = b.transpose(-1, -2) if op.transposed_b else b
    return a @ b * factor(op) + op.y_zero_point


@real.register
def _(op: Softmax, node: Node, graph: Graph, x: Any) -> torch.Tensor:
    return 256 * torch.softmax(x * op.mult_q31 * 2.0 ** (op.left_shift - 57), -1) - 128


@real.register
def _(op: LayerNorm, node: Node, graph: Graph, x: Any, gamma: Any, beta: Any) -> torch.Tensor:
    unit, eps = factors_scale(1.0), op.real_epsilon(x.shape[-1], 1.0)
    centred = x - x.mean(-1, keepdim=True)
    normal = centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + eps)
    return unit * (gamma * normal + beta) + op.y_zero_point


@real.register
def _(op: Lookup, node: Node, graph: Graph, x: Any) -> torch.Tensor:
    x_type, y_type = (graph.tensors[n].type for n in (node.inputs[0], node.outputs[0]))
    y = FUNCTIONS[op.function]((x - x_type.zero_point) * x_type.scale)
    return y / y_type.scale + y_type.zero_point


@real.register
def _(op: Reshape, node: Node, graph: Graph, x: Any) -> torch.Tensor:
    return x.reshape(op.shape)


@real.register
def _(op: Transpose, node: Node, graph: Graph, x: Any) -> torch.Tensor:
    return x.permute(op.perm)


@real.register
def _(op: Concatenation, node: Node, graph: Graph, *x: Any) -> torch.Tensor:
    return torch.cat(x, op.axis)


@real.register
def _(op: Slice, node: Node, graph: Graph, x: Any) -> torch.Tensor:
    part = op.part
    for axis, (first, size) in enumerate(zip(part.first, part.sizes, strict=True)):
        places = torch.arange(size) * part.steps[axis] + first
        x = torch.index_select(x, axis, places)
    return x


FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": torch.nn.functional.gelu,
    "hard_swish": torch.nn.functional.hardswish,
    "logistic": torch.sigmoid,
    "tanh": torch.tanh,
    "silu": lambda x: x * torch.sigmoid(x),
}

if __name__ == "__main__":
    main()
