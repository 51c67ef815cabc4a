"""Lowering: a planned training step as C expressions, ready to be printed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from mcutrain.codegen.c_text import CTYPES, comment, identifier
from mcutrain.codegen.declarations import ConstantTable, Declarations, Params
from mcutrain.ir.graph import Graph, Node, Tensor
from mcutrain.ir.op import Operand
from mcutrain.ir.text import dump, type_text
from mcutrain.memplan import TrainingPlan
from mcutrain.memplan.training_plan import STATE_HEADER_BYTES


@dataclass(frozen=True)
class Call:
    """One statement and what it computes."""

    comment: str
    code: str


class Program:
    """The statements of inference, of a training step and of an update, and all they refer to."""

    def __init__(self, plan: TrainingPlan, prefix: str = "mct") -> None:
        self.prefix = prefix
        self.plan = plan
        self.training = plan.training
        self.constants: dict[str, tuple[str, Tensor]] = {}
        self.kernels: dict[str, set[str]] = {}
        self._declarations = Declarations()
        self._names: set[str] = set()

        nodes = self.training.graph.nodes
        backward = next(i for i, n in enumerate(nodes) if self.training.loss in n.outputs)
        self.infer = self._calls(self.training.forward, self.training.forward.nodes)
        self.forward = self._calls(self.training.graph, nodes[:backward])
        self.backward = self._calls(self.training.graph, nodes[backward:])
        self.apply = self._calls(self.training.graph, self.training.apply)
        self.initial = self._initial_state()

    @property
    def tables(self) -> tuple[ConstantTable, ...]:
        """All constant tables, in order of first use."""
        return self._declarations.tables

    @property
    def params(self) -> tuple[Params, ...]:
        """All parameter structs, in order of first use."""
        return self._declarations.params

    @property
    def exponents(self) -> tuple[int, ...]:
        """Where the gradients' exponents stand in the state."""
        tensors = self.training.graph.tensors
        return tuple(
            offset
            for name, offset in self.plan.state_offsets.items()
            if tensors[name].type.dtype == "exponent"
        )

    @property
    def biases(self) -> int:
        """How many numbers of trained biases the state begins with."""
        state = {n: np.asarray(self.training.state[n]) for n in self.training.parameters}
        sizes = {n: value.size for n, value in state.items() if value.dtype == np.int32}
        places = sorted(self.plan.state_offsets[n] for n in sizes)
        last = STATE_HEADER_BYTES + 4 * sum(sizes.values())
        assert all(STATE_HEADER_BYTES <= place < last for place in places)
        return sum(sizes.values())

    @cached_property
    def model_hash(self) -> str:
        """16 hexadecimal digits of what fixes the meaning of a saved state."""
        digest = hashlib.sha256(dump(self.training.graph).encode())
        for node in (*self.training.graph.nodes, *self.training.apply):
            digest.update(repr(node).encode())  # the dump shortens tables
        digest.update(repr(sorted(self.plan.state_offsets.items())).encode())
        for name, tensor in sorted(self.training.graph.tensors.items()):
            if tensor.data is not None:
                digest.update(name.encode() + np.ascontiguousarray(tensor.data).tobytes())
        return digest.hexdigest()[:16]

    def expression(self, graph: Graph, name: str) -> str:
        """The C pointer to a tensor."""
        special = {
            self.training.step: "step",
            self.training.label: "&label",
            self.training.loss: "&result->loss_q16",
            self.training.prediction: "&result->prediction",
        }
        if name in special:
            return special[name]
        tensor = graph.tensors[name]
        ctype = CTYPES[tensor.type.dtype]
        state = self._state_of(name)
        if state is not None:
            return f"STATE({ctype}, {self.plan.state_offsets[state]})"
        if tensor.is_constant:
            return self._constant(tensor)
        return f"ARENA({ctype}, {self.plan.offset_of(name)})"

    def _state_of(self, name: str) -> str | None:
        if name in self.plan.state_offsets:
            return name
        return next((s for s, new in self.training.updated.items() if new == name), None)

    def _constant(self, tensor: Tensor) -> str:
        if tensor.name not in self.constants:
            name = self._unique(f"{self.prefix}_constant_{tensor.name}")
            self.constants[tensor.name] = (name, tensor)
        return self.constants[tensor.name][0]

    def _unique(self, name: str) -> str:
        base = identifier(name)
        candidate, i = base, 2
        while candidate in self._names:
            candidate, i = f"{base}_{i}", i + 1
        self._names.add(candidate)
        return candidate

    def _calls(self, graph: Graph, nodes: Iterable[Node]) -> tuple[Call, ...]:
        return tuple(self._call(graph, node) for node in nodes if not node.op.is_view)

    def _call(self, graph: Graph, node: Node) -> Call:
        call = node.op.kernel(graph.types(node.inputs), graph.types(node.outputs))
        self.kernels.setdefault(call.kernel, set()).add(call.source)
        code = self._declarations.call(call, partial(self._operand, graph, node), node.name)
        outputs = ", ".join(type_text(graph.tensors[n].type) for n in node.outputs[:1])
        text = comment(f"{node.name}: {outputs}")
        return Call(text, code)

    def _operand(self, graph: Graph, node: Node, operand: Operand) -> str:
        if operand.kind == "scratch":
            offset = self.plan.scratch_of(node.name)
            assert offset is not None, node.name
            return f"(void *)(arena.bytes + {offset})"
        names = node.inputs if operand.kind == "input" else node.outputs
        return self.expression(graph, names[operand.index])

    def _initial_state(self) -> tuple[Mapping[str, object], ...]:
        entries = []
        for name, offset in self.plan.state_offsets.items():
            value = np.asarray(self.training.state[name])
            if not value.any():
                continue  # mct_reset clears everything first
            dtype = "int8" if value.dtype == np.int8 else str(value.dtype)
            tensor = self.training.graph.tensors[name]
            c_name = self._unique(f"{self.prefix}_initial_{name}")
            self.constants[f"initial {name}"] = (
                c_name,
                Tensor(name, tensor.type, value.astype(dtype)),
            )
            entries.append(
                {"offset": offset, "name": c_name, "bytes": value.nbytes, "tensor": comment(name)}
            )
        return tuple(entries)


def sources_of(kernels: Mapping[str, set[str]]) -> tuple[str, ...]:
    """The C files of the kernels, relative to the firmware folder."""
    return tuple(sorted(source for sources in kernels.values() for source in sources))


def headers_of(kernels: Mapping[str, set[str]]) -> Sequence[str]:
    """The kernels' headers."""
    return [f"mct_{kernel}.h" for kernel in sorted(kernels)]
