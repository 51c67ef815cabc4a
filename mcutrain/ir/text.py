"""A graph as text, one node a line, for people and for diffs."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from mcutrain.ir.graph import Graph, TensorType

LONGEST_TUPLE = 4


def dump(graph: Graph) -> str:
    """Inputs, nodes in execution order, outputs. Tables are shortened; equal graphs print alike."""
    lines = [f"graph {graph.name}"]
    lines += [f"  input {n}: {type_text(graph.tensors[n].type)}" for n in graph.inputs]
    for i, node in enumerate(graph.nodes):
        outputs = ", ".join(f"{n}: {type_text(graph.tensors[n].type)}" for n in node.outputs)
        lines.append(f"  {i:3} {outputs} = {value_text(node.op)}({', '.join(node.inputs)})")
    lines += [f"  output {n}: {type_text(graph.tensors[n].type)}" for n in graph.outputs]
    return "\n".join(lines) + "\n"


def type_text(t: TensorType) -> str:
    """Such as `int8[1,8,8,16] = 0.0235 * (q + 5)`: shape, scale and zero point."""
    text = f"{t.dtype}[{','.join(map(str, t.shape))}]"
    if len(t.scales) == 1:
        sign = "-" if t.zero_point > 0 else "+"
        stored = f"(q {sign} {abs(t.zero_point)})" if t.zero_point else "q"
        text += f" = {t.scales[0]:.6g} * {stored}"
    elif t.scales:
        text += f", {len(t.scales)} scales"
    return text


def value_text(value: object) -> str:
    """An attribute or operator with its fields, long tuples shortened."""
    if is_dataclass(value) and not isinstance(value, type):
        inner = ", ".join(
            f"{f.name}={value_text(getattr(value, f.name))}" for f in fields(value) if f.repr
        )
        return f"{type(value).__name__}({inner})"
    if isinstance(value, tuple):
        shown = [value_text(v) for v in value[:LONGEST_TUPLE]]
        more = [f"… {len(value)}"] if len(value) > LONGEST_TUPLE else []
        return f"({', '.join(shown + more)})"
    return f"{value:.6g}" if isinstance(value, float) else repr(value)
