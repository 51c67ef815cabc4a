"""Networks with modules, fresh and as if they had learnt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mcutrain.fixedpoint import quantize_multiplier
from mcutrain.ir.graph import Graph
from mcutrain.modules import Augmented, augment, observe, observed_tensors, parse_modules
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.pooling import Mean
from mcutrain.quant.multipliers import conv_requantize
from mcutrain.sparse.module_names import module_part
from mcutrain.sparse.modules import added_columns
from tests.simulation.networks import Network, same, samples

KINDS = (
    "adapter:2",
    "lora:2",
    "lora-fa:2",
    "gain",
    "lite:3",
    "lite:5,expand=1,up=bilinear",
    "lite:3,separable=yes,expand=1/2",
    "gain,adapter:3,lora:1,lite:1",
    "lora:2,start=random",
)
CALIBRATION = 5


def even_network(seed: int = 1) -> Graph:
    """Two residual blocks of six channels."""
    net = Network((8, 8, 3), seed)
    y = net.conv(net.x, 6, same(3, 2))
    for _ in range(2):
        y = net.add(net.conv(net.depthwise(net.conv(y, 8, relu=True), same(3), relu=True), 6), y)
    return net.graph(net.conv(net.mean(y), 3))


def augmented(graph: Graph, text: str, seed: int = 0) -> Augmented:
    """From random samples."""
    specs = parse_modules(text)
    x, _ = samples(graph, CALIBRATION, 2, seed)
    return augment(graph, specs, observe(graph, observed_tensors(graph, specs), x), seed)


def learnt(graph: Graph, seed: int = 0, spread: float = 40.0) -> Graph:
    """The graph with random numbers in what began at zero, or at one."""
    rng = np.random.default_rng(seed)
    added, tensors = added_columns(graph), dict(graph.tensors)
    for name, tensor in graph.tensors.items():
        if tensor.data is None:
            continue
        part, data = module_part(name), np.array(tensor.data)
        drawn = np.clip(np.rint(rng.normal(0, spread, data.shape)), -127, 127).astype(np.int8)
        if name in added:
            data[..., -added[name] :] = drawn[..., -added[name] :]
        elif part is not None and part.part in ("up", "second"):
            data = drawn
        elif part is not None and part.part == "factor":
            data = (data + drawn // 4).astype(np.int8)
        tensors[name] = replace(tensor, data=data)
    return replace(graph, tensors=tensors)


def single_precision(graph: Graph) -> Graph:
    """The graph with scales as a file can hold them, and multipliers that follow from them."""
    tensors = {}
    for name, tensor in graph.tensors.items():
        scales = tuple(float(np.float32(s)) for s in tensor.type.scales)
        tensors[name] = replace(tensor, type=replace(tensor.type, scales=scales))
    nodes = []
    for node in graph.nodes:
        op, (y,) = node.op, node.outputs
        x, kind = tensors[node.inputs[0]].type, tensors[y].type
        if isinstance(op, Conv2D | DepthwiseConv2D) and op.requantize is not None:
            w = tensors[node.inputs[1]].type.scales
            made = conv_requantize(x.scale, w, kind.scale, kind.zero_point)
            op = replace(op, requantize=replace(made, low=op.requantize.low))
        elif isinstance(op, Mean):
            positions = x.shape[1] * x.shape[2]
            factor = quantize_multiplier(x.scale / kind.scale / positions)
            op = replace(op, mult_q31=factor[0], shift=factor[1])
        nodes.append(replace(node, op=op))
    return replace(graph, tensors=tensors, nodes=tuple(nodes))
