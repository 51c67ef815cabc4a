"""Layers that PyTorch's exporter only numbered are called after their modules."""

from __future__ import annotations

import re
from collections import Counter

from onnx import GraphProto, NodeProto

LAYERS = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
NUMBERED = re.compile(r"(val|getitem|conv[12]d|conv_transpose[12]d|linear)(_\d+)?")
"""What torch.onnx.export with dynamo=True calls what operators compute. A getitem is the output
of a batch norm that the exporter folded into the layer."""
NUMBER = re.compile(r"_\d+$")
ACTIVATIONS = {"Clip", "HardSigmoid", "HardSwish", "LeakyRelu", "PRelu", "Relu", "Sigmoid", "Tanh"}
"""What may become a part of the layer before it, which then has its name."""
SCOPES = "pkg.torch.onnx.name_scopes"
"""Its metadata: "['', 'blocks', 'blocks.0', 'linear']", the modules from the outermost to
the innermost, and the operator."""


def with_module_names(graph: GraphProto) -> None:
    """Rename val_12 to blocks.0.attn.qkv where a layer computes it and no tensor is called so.

    Where an activation alone takes that, its relu_3 becomes blocks.0.attn.qkv/relu.
    """
    outputs = {info.name for info in graph.output}
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    taken.update(info.name for info in (*graph.input, *graph.initializer, *graph.value_info))
    takers = Counter(name for node in graph.node for name in node.input)
    renamed: dict[str, str] = {}
    for node in graph.node:
        name, x = _module(node), next(iter(node.input), "")
        if node.op_type in ACTIVATIONS and takers[x] == 1:
            layer = renamed.get(x, "")
            name = f"{layer}/{NUMBER.sub('', node.output[0])}" if layer else ""
        if name and name not in taken and node.output[0] not in outputs:
            renamed[node.output[0]] = name
            taken.add(name)
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [renamed.get(name, name) for name in names]
    for info in graph.value_info:
        info.name = renamed.get(info.name, info.name)


def _module(node: NodeProto) -> str:
    """The module of a layer whose output is only numbered; "" if it is not known.

    The weight's name says it, `blocks.0.fc1.weight`. Where that is only numbered, too, it is the
    innermost module, unless a batch norm was folded into the layer: the module is then that one.
    """
    output = "".join(node.output)
    told = next((entry.value for entry in node.metadata_props if entry.key == SCOPES), "")
    if node.op_type not in LAYERS or not NUMBERED.fullmatch(output) or not told:
        return ""
    module, dot, kind = "".join(node.input[1:2]).rpartition(".")
    if dot and kind == "weight":
        return module
    return "" if output.startswith("getitem") else "".join(re.findall(r"'([^']*)'", told)[-2:-1])
