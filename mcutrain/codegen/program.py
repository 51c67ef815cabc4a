"""Lowering: a planned training step as C expressions, ready to be printed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from mcutrain.codegen.c_text import CTYPES, comment, identifier, literal, literals
from mcutrain.ir.graph import Graph, Node, Tensor
from mcutrain.ir.op import KernelCall, Operand, Param
from mcutrain.ir.text import dump, type_text
from mcutrain.memplan import TrainingPlan


@dataclass(frozen=True)
class Call:
    """One statement and what it computes."""

    comment: str
    code: str


@dataclass(frozen=True)
class Table:
    """A constant array inside mct_model.c."""

    ctype: str
    name: str
    values: str


@dataclass(frozen=True)
class Params:
    """A kernel's parameter struct with designated initializers."""

    type: str
    name: str
    fields: tuple[tuple[str, str], ...]


@dataclass
class Declarations:
    """The constant tables and parameter structs of a C file, each distinct one once."""

    _tables: dict[tuple[str, str], Table] = field(default_factory=dict)
    _params: dict[tuple[str, tuple[tuple[str, str], ...]], Params] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[Table, ...]:
        """All constant tables, in order of first use."""
        return tuple(self._tables.values())

    @property
    def params(self) -> tuple[Params, ...]:
        """All parameter structs, in order of first use."""
        return tuple(self._params.values())

    def call(self, call: KernelCall, operand: Callable[[Operand], str]) -> str:
        """The statement of a call, its parameters declared. operand: the C pointer of each."""
        pointers = ["NULL" if o.kind == "null" else operand(o) for o in call.operands]
        return f"{call.function}({', '.join([f'&{self._struct(call)}', *pointers])});"

    def _table(self, ctype: str, values: tuple[int, ...]) -> str:
        key = (ctype, literals(values))
        if key not in self._tables:
            self._tables[key] = Table(ctype, f"table_{len(self._tables)}", key[1])
        return self._tables[key].name

    def _value(self, param: Param) -> str:
        if param.value is None:
            return "NULL"
        if isinstance(param.value, tuple):
            element = param.ctype.removeprefix("const ").removesuffix(" *")
            return self._table(element, param.value)
        return literal(param.value)

    def _struct(self, call: KernelCall) -> str:
        fields = tuple((p.name, self._value(p)) for p in call.params)
        key = (f"{call.function}_params", fields)
        if key not in self._params:
            self._params[key] = Params(key[0], f"params_{len(self._params)}", fields)
        return self._params[key].name


class Program:
    """The statements of inference, of a training step and of an update, and all they refer to."""

    def __init__(self, plan: TrainingPlan) -> None:
        self.plan = plan
        self.training = plan.training
        self.constants: dict[str, tuple[str, Tensor]] = {}
        self.kernels: dict[str, set[str]] = {}
        self._declarations = Declarations()
        self._names: set[str] = set()

        # without the tail, inference is the training step's forward part that saves no masks
        self.infer = self._calls(self.training.forward, self.training.forward.nodes)
        self.train = self._calls(self.training.graph, self.training.graph.nodes)
        self.apply = self._calls(self.training.graph, self.training.apply)
        self.initial = self._initial_state()

    @property
    def tables(self) -> tuple[Table, ...]:
        """All constant tables, in order of first use."""
        return self._declarations.tables

    @property
    def params(self) -> tuple[Params, ...]:
        """All parameter structs, in order of first use."""
        return self._declarations.params

    @property
    def model_hash(self) -> str:
        """16 hexadecimal digits of what fixes the meaning of a saved state."""
        digest = hashlib.sha256(dump(self.training.graph).encode())
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
            self.constants[tensor.name] = (self._unique(f"mct_{tensor.name}"), tensor)
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
        self.kernels.setdefault(call.kernel, set()).update(call.bodies)
        code = self._declarations.call(call, partial(self._operand, graph, node))
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
            c_name = self._unique(f"mct_initial_{name}")
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
    return tuple(
        f"kernels/{kernel}/{body}.c"
        for kernel in sorted(kernels)
        for body in sorted(kernels[kernel])
    )


def headers_of(kernels: Mapping[str, set[str]]) -> Sequence[str]:
    """The kernels' headers."""
    return [f"{kernel}.h" for kernel in sorted(kernels)]
