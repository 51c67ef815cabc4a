"""Layers that PyTorch's exporter only numbered are called after their modules."""

from __future__ import annotations

import re

from onnx import GraphProto, NodeProto

LAYERS = {"Conv", "Gemm", "MatMul"}
SCOPES = "pkg.torch.onnx.name_scopes"
"""Metadata of torch.onnx.export with dynamo=True: "['', 'blocks', 'blocks.0', 'linear']", the
modules from the outermost to the innermost, and the operator."""


def with_module_names(graph: GraphProto) -> None:
    """Rename val_12 to blocks.0.attn.qkv where a layer computes it and nothing else is called so.

    The exporter numbers what it makes of one operator: the product of a linear layer, before its
    bias is added.
    """
    outputs = {info.name for info in graph.output}
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    taken.update(info.name for info in (*graph.input, *graph.initializer, *graph.value_info))
    renamed: dict[str, str] = {}
    for node in graph.node:
        module = _module(node)
        if module and module not in taken and node.output[0] not in outputs:
            renamed[node.output[0]] = module
            taken.add(module)
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [renamed.get(name, name) for name in names]
    for info in graph.value_info:
        info.name = renamed.get(info.name, info.name)


def _module(node: NodeProto) -> str:
    """The innermost module of a layer whose output is only numbered; "" if it is not known."""
    if node.op_type not in LAYERS or not re.fullmatch(r"val_\d+", "".join(node.output)):
        return ""
    told = next((entry.value for entry in node.metadata_props if entry.key == SCOPES), "")
    return "".join(re.findall(r"'([^']*)'", told)[-2:-1])
