"""Float models of several inputs, as models of one: a row that has the inputs after each other."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

from mcutrain.formats.onnx.file import HALVES
from mcutrain.ir.names import Names
from mcutrain.quant.float_op import Shape

REAL = (TensorProto.FLOAT, TensorProto.DOUBLE, *HALVES)


def with_one_input(model: ModelProto) -> tuple[ModelProto, Mapping[str, Shape]]:
    """The model with a Split of a row in front, and the shapes of the inputs that it had.

    Itself and nothing where it has one input, or one that is not float, of a known shape and of
    batch 1 or an open one: reading it says so.
    """
    known = {tensor.name for tensor in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in known]
    kinds = {info.type.tensor_type.elem_type for info in inputs}
    shapes = {info.name: _shape(info) for info in inputs}
    if len(inputs) < 2 or len(kinds) > 1 or not kinds <= set(REAL) or () in shapes.values():
        return model, {}
    made = ModelProto()
    made.CopyFrom(model)
    _cut_apart(made.graph, shapes, *kinds)
    return made, shapes


def _shape(info: ValueInfoProto) -> Shape:
    """The shape of an input, whose batch may be open; empty where it is not known."""
    lengths = [d.dim_value for d in info.type.tensor_type.shape.dim]
    is_known = len(lengths) > 1 and lengths[0] < 2 and min(lengths[1:]) > 0
    return (1, *lengths[1:]) if is_known else ()


def _cut_apart(graph: GraphProto, shapes: Mapping[str, Shape], kind: int) -> None:
    """Put one input, a Split and views in the place of the inputs."""
    given = (tensor.name for tensor in graph.initializer)
    names = Names((*given, *shapes, *(n for node in graph.node for n in node.output)))
    row, sizes = names.take("inputs"), [math.prod(shape) for shape in shapes.values()]
    parts = [names.take(f"{name}/part") for name in shapes]

    def integers(name: str, values: Shape | list[int]) -> str:
        taken = names.take(name)
        graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), taken))
        return taken

    split = [row, integers("inputs/sizes", sizes)]
    nodes = [helper.make_node("Split", split, parts, name=f"{row}/split", axis=1)]
    for part, (name, shape) in zip(parts, shapes.items(), strict=True):
        view = [part, integers(f"{name}/shape", shape)]
        nodes.append(helper.make_node("Reshape", view, [name], name=f"{name}/view"))
    rest = list(graph.node)
    del graph.node[:], graph.input[:]
    graph.node.extend([*nodes, *rest])
    graph.input.append(helper.make_tensor_value_info(row, kind, [1, sum(sizes)]))
