"""What of a training step lies in flash: weights, initial state, tables, parameters, code."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Hashable, Iterator, Mapping
from functools import lru_cache

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.ir.graph import Graph, TensorType
from mcutrain.ir.op import KernelCall, Op
from mcutrain.memplan.calls import kernel_call
from mcutrain.memplan.plan import align_up
from mcutrain.memplan.training_plan import constant_sizes
from mcutrain.selection.cost import FlashPart
from mcutrain.target import FIRMWARE

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

Types = tuple[TensorType, ...]
ALIGN_BYTES = 4
FIELD_BYTES = 4
"""A number or a pointer of a parameter struct on a 32-bit chip."""
ELEMENT_BYTES = {"int8_t": 1, "int16_t": 2, "int32_t": 4}
CODE_FILE = FIRMWARE / "costs" / "code.toml"


@dataclass(frozen=True)
class CodeSizes:
    """Upper bounds, measured by benchmarks/code_bytes.py. kernels: by C file. call: of one kernel
    call. fixed: everything else that is linked."""

    fixed: int
    call: int
    kernels: Mapping[str, int]


@lru_cache(maxsize=4)
def code_sizes(isa: str) -> CodeSizes | None:
    """Read the code sizes of an instruction set; None where flash is no matter."""
    values = tomllib.loads(CODE_FILE.read_text(encoding="utf-8")).get(isa)
    return None if values is None else CodeSizes(**values)


def flash_parts(training: TrainGraph, code: CodeSizes | None = None) -> dict[Hashable, FlashPart]:
    """Every object that the generated C declares constant, and its code.

    Keys: (constant or initial, tensor), (table or params, digest), (call, place), (code, file).
    Parts are told apart by content, a table's whatever its order: two of the same numbers count
    once. So the sum is at most the truth, but for the code; and a network whose channels are
    reordered has the same parts. Sizes are rounded up to the alignment of 32-bit objects. Tables
    of shifts are not certain: with other residual bits they hold other numbers, and may then be
    equal to one that is there.
    """
    parts: dict[Hashable, FlashPart] = {}
    for name, size in constant_sizes(training).items():
        parts["constant", name] = _part(size)
    for name, value in training.state.items():
        if np.asarray(value).any():  # what is 0 is cleared, not copied
            parts["initial", name] = _part(int(np.asarray(value).nbytes))
    for place, op, types, results in _operators(training):
        parts.update(node_parts(place, op, types, results, code))
    return parts


def node_parts(
    place: Hashable, op: Op, types: Types, results: Types, code: CodeSizes | None
) -> dict[Hashable, FlashPart]:
    """Return a call's tables, parameters, and code if it is known. place: where it stands."""
    parts: dict[Hashable, FlashPart] = dict(_params(op, types, results))
    if code is not None:
        parts["call", place] = _part(code.call)
        for file in kernel_call(op, types, results).sources:
            parts["code", file] = _part(code.kernels[file])
    return parts


def network_bytes(graph: Graph, beside: Graph) -> int:
    """Bytes of a network's inference that another network has not: constants, tables, parameters.

    The code of kernels is not counted, nor that of the calls.
    """
    others = _network_parts(beside)
    return sum(size for key, size in _network_parts(graph).items() if key not in others)


def _network_parts(graph: Graph) -> dict[Hashable, int]:
    """Bytes by content."""
    parts = {key: part.size_bytes for key, part in inference_parts(graph, None)}
    for name in graph.constants():
        data = graph.tensors[name].data
        assert data is not None
        key = hashlib.sha256(np.ascontiguousarray(data).tobytes()).hexdigest()
        parts["constant", key] = align_up(data.nbytes, ALIGN_BYTES)
    return parts


def inference_parts(graph: Graph, code: CodeSizes | None) -> Iterator[tuple[Hashable, FlashPart]]:
    """Yield the parts of all calls of an inference, without constants."""
    for node in graph.nodes:
        if not node.op.is_view:
            types, results = graph.types(node.inputs), graph.types(node.outputs)
            yield from node_parts(node.name, node.op, types, results, code).items()


def kernel_calls(training: TrainGraph) -> Iterator[KernelCall]:
    """The calls of inference, of a step and of an update."""
    for _, op, types, results in _operators(training):
        yield kernel_call(op, types, results)


def _operators(training: TrainGraph) -> Iterator[tuple[tuple[str, str], Op, Types, Types]]:
    """Every call's place (the part of the program and the node), operator and types."""
    step = (*training.graph.nodes, *training.apply)
    for part, graph, nodes in (
        ("infer", training.forward, training.forward.nodes),
        ("step", training.graph, step),
    ):
        for node in nodes:
            if not node.op.is_view:
                yield (
                    (part, node.name),
                    node.op,
                    graph.types(node.inputs),
                    graph.types(node.outputs),
                )


@lru_cache(maxsize=2048)
def _params(op: Op, types: Types, results: Types) -> tuple[tuple[tuple[str, str], FlashPart], ...]:
    """The tables and the struct of a call, by kind and a digest of what they hold."""
    call = kernel_call(op, types, results)
    values: list[object] = []
    parts: list[tuple[tuple[str, str], FlashPart]] = []
    for param in call.params:
        if not isinstance(param.value, tuple):
            values.append(param.value)
            continue
        element = param.ctype.removeprefix("const ").removesuffix(" *")
        numbers = np.sort(np.array(param.value, np.int64))
        key = hashlib.sha256(element.encode() + numbers.tobytes()).hexdigest()
        values.append(key)
        size = len(numbers) * ELEMENT_BYTES[element]
        parts.append((("table", key), _part(size, element != "int8_t")))
    struct = hashlib.sha256(repr((call.function, values)).encode()).hexdigest()
    return (*parts, (("params", struct), _part(FIELD_BYTES * len(call.params))))


def _part(size_bytes: int, is_certain: bool = True) -> FlashPart:
    return FlashPart(align_up(size_bytes, ALIGN_BYTES), is_certain)
