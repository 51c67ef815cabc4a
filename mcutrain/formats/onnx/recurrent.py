"""ONNX' LSTM and GRU: a sequence with a state of zeros before it, or the last state alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, NodeProto, helper

from mcutrain.errors import UnsupportedError
from mcutrain.formats.onnx.layout import Layout
from mcutrain.formats.onnx.node import GraphNode, OnnxNode, V
from mcutrain.formats.onnx.shaping import channels_last, reshaped, transposed
from mcutrain.formats.onnx.writer import OnnxWriter, axis_order
from mcutrain.ir.graph import Node
from mcutrain.ops.gru import Gru
from mcutrain.ops.lstm import NO_CELL_LIMIT, Lstm
from mcutrain.ops.recurrent import DIRECTIONS, Recurrent
from mcutrain.quant import multipliers
from mcutrain.quant.float_recurrent import FloatGru, FloatLstm, FloatRecurrent

Array = npt.NDArray[Any]

KINDS: dict[str, type[FloatRecurrent]] = {"LSTM": FloatLstm, "GRU": FloatGru}
ORDERS = {"LSTM": (0, 2, 3, 1), "GRU": (0, 1, 2)}
"""Places of our gates among ONNX'."""
ACTIVATIONS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh")}
LENGTHS, STATE, CELL, PEEPHOLES = 4, 5, 6, 7
"""Inputs that may be left out."""
OUTPUT = "output"
"""An attribute of nodes that have one output: which of the file's it is."""


def with_one_output(graph: GraphProto) -> None:
    """Put a node for each output that is read in the place of a recurrent one."""
    if not any(node.op_type in KINDS for node in graph.node):
        return
    read = {name for node in graph.node for name in node.input}
    read.update(info.name for info in graph.output)
    nodes = [one for node in graph.node for one in _split(node, read)]
    del graph.node[:]
    graph.node.extend(nodes)


def _split(node: NodeProto, read: set[str]) -> list[NodeProto]:
    if node.op_type not in KINDS:
        return [node]
    wanted = [(k, name) for k, name in enumerate(node.output) if name and name in read]
    found = []
    for place, name in wanted:
        one = NodeProto()
        one.CopyFrom(node)
        one.output[:] = [name]
        one.name = node.name if len(wanted) == 1 else f"{node.name}.{place}" if node.name else ""
        one.attribute.append(helper.make_attribute(OUTPUT, place))
        found.append(one)
    return found


def recurrent(node: GraphNode[V]) -> V:
    """Return h of each step, or of the last one."""
    _check(node)
    x, attributes = node.real(), node.attributes
    is_batch_first = attributes.integer("layout", 0) == 1
    axes = (0, 1) if is_batch_first else (1, 0)
    if len(x.shape) != 3 or x.shape[axes[0]] != 1:
        raise node.unsupported(f"an input {x.shape} is not; a batch of 1 is")
    direction = attributes.text("direction", "forward")
    if direction not in DIRECTIONS:
        raise node.wrong(f"its direction is {direction!r}")
    is_last = attributes.integer(OUTPUT, 0) == 1
    parameters = _parameters(node, direction, x.shape[2])
    scales = _scales(node, 1), _scales(node, 2)
    op = KINDS[node.op_type](*parameters, direction, is_last, scales)
    rows = node.arranged(0, x.shape, (*axes, 2), "rows")
    ways, _, units, _ = op.w.shape
    steps = () if is_last else (x.shape[axes[1]],)
    stored = (1, *steps, ways, units)
    order = [0, *range(1, len(stored))] if is_batch_first else [*range(1, len(stored) - 1)]
    if not is_batch_first:
        order += [0, len(stored) - 1]  # the batch stands before the units
    return node.computed(op, (rows,), Layout(stored, tuple(order), tuple(stored[i] for i in order)))


def _scales(node: OnnxNode[Any], index: int) -> Array | None:
    """Return a scale for each of our gates, if the file has int8 with one scale for a gate."""
    order, weight = list(ORDERS[node.op_type]), node.constant(index)
    if (
        weight.scales is None
        or weight.data.ndim != 3
        or (weight.scales.size > 1 and weight.axis != 1)
    ):
        return None
    rows = weight.data.shape[1]
    if rows % len(order) or weight.scales.size not in (1, rows):
        return None
    if weight.data.min() < -128 or weight.data.max() > 127:
        return None
    each = np.broadcast_to(weight.scales.ravel(), (rows,)).reshape(len(order), -1)[order]
    return each[:, 0].astype(np.float64) if (each == each[:, :1]).all() else None


def _check(node: OnnxNode[Any]) -> None:
    """Refuse what exporters do not write of the layers of PyTorch and Keras."""
    kind, attributes = node.op_type, node.attributes
    if attributes.integer(OUTPUT, 0) > 1:
        raise node.unsupported("the cell state as an output is not; the sequence and h are")
    named = tuple(name.lower() for name in attributes.texts("activations"))
    if named and named != ACTIVATIONS[kind] * (len(named) // len(ACTIVATIONS[kind])):
        raise node.unsupported(f"the activations {named} are not; {ACTIVATIONS[kind]} are")
    if kind == "GRU" and not attributes.integer("linear_before_reset", 0):
        raise node.unsupported(
            "a reset before the product with the state is not; one behind it, as of PyTorch's GRU "
            "and Keras' with reset_after=True, is"
        )
    if kind == "LSTM" and attributes.integer("input_forget", 0):
        raise node.unsupported("coupled input and forget gates are not; both are")
    if node.has(PEEPHOLES) and node.numbers(PEEPHOLES).any():
        raise node.unsupported("peephole weights are not; an LSTM without is")
    for place in (STATE, CELL):
        if node.has(place) and not (node.is_constant(place) and not node.numbers(place).any()):
            raise node.unsupported("an initial state is not; one of zeros, which is left out, is")
    steps = node.x().shape[1 if attributes.integer("layout", 0) else 0]
    if node.has(LENGTHS) and set(node.integers(LENGTHS)) != {steps}:
        raise node.unsupported("sequences shorter than the input are not; whole ones are")


def _parameters(
    node: GraphNode[Any], direction: str, count: int
) -> tuple[Array, Array, Array, Array]:
    """w, u, b of x, and b of the last gate's products with h, in the order of our gates."""
    order = list(ORDERS[node.op_type])
    gates, ways = len(order), len(DIRECTIONS[direction])
    w, u = node.numbers(1), node.numbers(2)
    units = u.shape[-1]
    b = node.numbers(3) if node.has(3) else np.zeros((ways, 2 * gates * units))
    wanted = ((ways, gates * units, count), (ways, gates * units, units), (ways, 2 * gates * units))
    if (w.shape, u.shape, b.shape) != wanted or 0 in u.shape:
        raise node.wrong(f"its weights {w.shape}, {u.shape}, {b.shape} do not fit each other")
    if node.attributes.integer("hidden_size", units) != units:
        raise node.wrong(f"its hidden_size is not that of its weights, {units}")
    w, u = (v.reshape(ways, gates, units, -1)[:, order] for v in (w, u))
    of_x, of_h = b.reshape(ways, 2, gates, units)[:, :, order].swapaxes(0, 1).copy()
    last = of_h[:, -1].copy()
    if node.op_type == "GRU":
        of_h[:, -1] = 0
    return w, u, of_x + of_h, last if node.op_type == "GRU" else np.zeros_like(last)


# ------------------------------------------------------------------------------------------ writing


def write_recurrent(w: OnnxWriter, node: Node) -> None:
    """LSTM or GRU of a batch of 1. Raises UnsupportedError for a state that no file tells."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, Recurrent)
    name = "LSTM" if isinstance(op, Lstm) else "GRU"
    x, kind = w.type(node.inputs[0]), w.type(y)
    steps, ways = x.elements // x.shape[-1], len(DIRECTIONS[op.direction])
    told = multipliers.cell_integer_bits(steps), NO_CELL_LIMIT
    if isinstance(op, Lstm) and (op.cell_integer_bits, op.cell_limit) != told:
        raise UnsupportedError(
            f"node {node.name!r} has a cell state of {op.cell_integer_bits} integer bits within "
            f"{op.cell_limit}; .onnx cannot say so: write .tflite"
        )
    real = channels_last(w, w.real(node.inputs[0]), len(x.shape), f"{y}/channels_last")
    real = reshaped(w, real, (steps, 1, x.shape[-1]), f"{y}/steps")
    units = kind.shape[-1] // ways
    attributes: dict[str, Any] = {"hidden_size": units, "direction": op.direction}
    if isinstance(op, Gru):
        attributes["linear_before_reset"] = 1
    inputs = [real, *_written(w, node, ways, units, ORDERS[name])]
    real = w.layer(node, name, inputs, **attributes)
    if op.is_last:
        w.nodes[-1].output[:] = ["", real]
    axes = (1, 0, 2) if op.is_last else (0, 2, 1, 3)
    if ways > 1:
        real = transposed(w, real, axes, f"{y}/ways_last")
    real = reshaped(w, real, kind.shape, f"{y}/rows")
    w.finish(transposed(w, real, axis_order(len(kind.shape)), f"{y}/channels_first"), y)


def _written(w: OnnxWriter, node: Node, ways: int, units: int, order: Sequence[int]) -> list[str]:
    """Weights and biases in ONNX' order of gates, whose scales are the same in all directions."""
    x, gates = w.type(node.inputs[0]), len(order)
    places = np.argsort(order)
    scale_of = (x.scale, w.type(node.outputs[0]).scale)
    names, biases, scales = [], [], []
    for name, scale in zip(node.inputs[1:3], scale_of, strict=True):
        tensor = w.graph.tensors[name]
        assert tensor.data is not None
        by_gate = tensor.data.reshape(ways, gates, units, -1)[:, places]
        each = np.resize(tensor.type.scales, len(tensor.data)).reshape(ways, gates, units)[0]
        each = each[places].ravel()
        data = by_gate.reshape(ways, gates * units, -1)
        kind = type(tensor.type)(data.shape, "int8", tuple(each.tolist()), 0, 1)
        names.append(w.parameter(name, data, kind))
        scales += [multipliers.single(scale * one) for one in each]
        biases.append(np.zeros((ways, gates, units), np.int32))
    for part, name in zip(biases, node.inputs[3:], strict=False):
        bias = w.graph.tensors[name].data
        assert bias is not None
        own = bias.reshape(ways, -1, units)  # of all gates, or of the last one alone
        part[:, -own.shape[1] :] = own
    joined = np.concatenate([b[:, places].reshape(ways, -1) for b in biases], axis=1)
    kind = type(x)(joined.shape, "int32", tuple(scales), 0, 1)
    return [*names, w.parameter(node.inputs[3], joined, kind)]
