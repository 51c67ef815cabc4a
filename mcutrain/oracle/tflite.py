"""What the TFLite interpreter's reference kernels compute, as the integers that our graph computes.

The interpreter comes from ai-edge-litert or tflite-runtime, whichever is installed.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
import tflite
from mcutrain_host.packages import OPTIONAL

from mcutrain.errors import McutrainError
from mcutrain.formats.outputs import kept
from mcutrain.ir.graph import Graph, Node, TensorType
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.oracle.interpreter import Installed, find_interpreter
from mcutrain.quant import multipliers

Array = npt.NDArray[Any]

UINT8_OFFSET = 128  # as formats.tflite: an uint8 tensor at the edge is int8 plus this


def interpreter() -> Installed:
    """The interpreter of this Python. Raises McutrainError with what to install."""
    found = find_interpreter()
    if found is None:
        raise McutrainError(
            f"{OPTIONAL['ai-edge-litert'].missing}, or tflite-runtime on Python 3.10 and 3.11"
        )
    return found


def run_reference(
    model: bytes | str | Path, inputs: Sequence[Sequence[Array]]
) -> list[list[Array]]:
    """The outputs of the reference kernels for each tuple of inputs, in the model's order."""
    loaded = _load(model)
    return [_invoke(loaded, values) for values in inputs]


def tflite_outputs(
    path: bytes | str | Path,
    samples: Array,
    graph: Graph,
    report: Callable[[int], None] = lambda _: None,
) -> Array:
    """The first output for each sample: int8 [n, …], whatever types the file's edges have.

    samples: int8 [n, …] for the first input of `graph`, loaded from the file. path: of it, or its
    content. A streaming file takes each step by step, and gives the output of the last one. report:
    samples done.
    """
    loaded = _load(path)
    x, y = graph.tensors[graph.inputs[0]].type, graph.tensors[graph.outputs[0]].type
    details = loaded.get_input_details()
    if len(details) != 1:
        where = "the model" if isinstance(path, bytes) else path
        raise McutrainError(f"{where} has {len(details)} inputs; models with one can be verified")
    (first, *_) = kept([d["name"] for d in loaded.get_output_details()])
    results = []
    for done, sample in enumerate(samples, 1):
        loaded.reset_all_variables()  # a recurrent layer begins each sample with zeros
        for part in _steps(sample.reshape(x.shape), graph.step_rows):
            fed = _encode(part.reshape(details[0]["shape"]), x, details[0]["dtype"])
            found = _invoke(loaded, [fed])[first]
        results.append(_decode(found, y).reshape(y.shape))
        report(done)
    return np.concatenate(results)


def _steps(sample: Array, rows: int) -> list[Array]:
    """The parts of a sample that a file takes one after another. rows: of each step; 0: it is one.

    Where the first step has more rows than are left, zeros are before them.
    """
    if rows == 0:
        return [sample]
    missing = -sample.shape[1] % rows
    whole = np.pad(sample, [(0, 0), (missing, 0), *((0, 0) for _ in sample.shape[2:])])
    return np.split(whole, whole.shape[1] // rows, axis=1)


def as_installed(graph: Graph) -> Graph:
    """The graph with the rounding of FULLY_CONNECTED that the installed interpreter has."""
    found = find_interpreter()
    if found is None or found.rounds_once:
        return graph
    return graph.with_nodes(_rounding_twice(graph, n) for n in graph.nodes)


def _with_real_sums(model: bytes | str | Path) -> bytes | str | Path:
    """The model with SUM of int8 in single precision: its reference kernel takes int8 for uint8.

    So it is in LiteRT 2.3.0, TensorFlow 2.21 and tflite-runtime 2.14; the other kernels add what is
    meant. What does not fit int8 saturates here, where they would wrap around. Raises McutrainError
    where the package that can write such a model is not installed.
    """
    content = model if isinstance(model, bytes) else Path(model).read_bytes()
    if not _has_int8_sum(tflite.Model.GetRootAs(content, 0)):
        return model
    try:
        schema = importlib.import_module("ai_edge_litert.schema_py_generated")
    except ImportError as error:
        raise McutrainError(
            "the model has a SUM of int8, which the reference kernel of tflite-runtime takes for "
            "uint8: install ai-edge-litert to compare it"
        ) from error
    tables = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    for graph in tables.subgraphs:
        graph.operators = [
            made
            for operator in graph.operators
            for made in _real_sum(schema, tables, graph, operator)
        ]
    builder = flatbuffers.Builder(len(content))
    builder.Finish(tables.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _has_int8_sum(root: Any) -> bool:
    codes = [root.OperatorCodes(i).BuiltinCode() for i in range(root.OperatorCodesLength())]
    for graph in map(root.Subgraphs, range(root.SubgraphsLength())):
        for operator in map(graph.Operators, range(graph.OperatorsLength())):
            is_sum = codes[operator.OpcodeIndex()] == tflite.BuiltinOperator.SUM
            if is_sum and graph.Tensors(operator.Inputs(0)).Type() == tflite.TensorType.INT8:
                return True
    return False


def _real_sum(schema: Any, model: Any, graph: Any, operator: Any) -> list[Any]:
    """A SUM of int8 between a DEQUANTIZE and a QUANTIZE; other operators as they are."""
    x, y = operator.inputs[0], operator.outputs[0]
    known = model.operatorCodes[operator.opcodeIndex]  # old files have but the deprecated code
    is_sum = max(known.builtinCode, known.deprecatedBuiltinCode) == schema.BuiltinOperator.SUM
    if not is_sum or graph.tensors[x].type != schema.TensorType.INT8:
        return [operator]

    def code(builtin: int) -> int:
        made = schema.OperatorCodeT()
        made.builtinCode = made.deprecatedBuiltinCode = builtin
        made.version = 2 if builtin == schema.BuiltinOperator.DEQUANTIZE else 1
        model.operatorCodes.append(made)
        return len(model.operatorCodes) - 1

    def real(of: int) -> int:
        made = schema.TensorT()
        made.shape, made.name = graph.tensors[of].shape, (graph.tensors[of].name or b"") + b"/real"
        made.type, made.buffer = schema.TensorType.FLOAT32, 0
        graph.tensors.append(made)
        return len(graph.tensors) - 1

    def between(builtin: int, source: int, target: int) -> Any:
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = code(builtin), [source], [target]
        return made

    inner, outer = real(x), real(y)
    operator.inputs, operator.outputs = [inner, *operator.inputs[1:]], [outer]
    first = between(schema.BuiltinOperator.DEQUANTIZE, x, inner)
    return [first, operator, between(schema.BuiltinOperator.QUANTIZE, outer, y)]


def _load(model: bytes | str | Path) -> Any:
    module = interpreter().module
    model = _with_real_sums(model)
    source: dict[str, Any] = (
        {"model_content": model} if isinstance(model, bytes) else {"model_path": str(model)}
    )
    try:
        loaded = module.Interpreter(
            experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF, **source
        )
        loaded.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise McutrainError(_refusal(str(error))) from error
    return loaded


def _refusal(reason: str) -> str:
    """Why it does not load a model; of an operator that only its optimized kernels have, that."""
    found = re.search(r"builtin opcode '(\w+)' version", reason)
    if found is None:
        return f"the TFLite interpreter refuses the model: {reason}"
    package = interpreter().package.replace("_", "-")
    return (
        f"the reference kernels of {package} have no {found[1]}, so nothing can be compared with "
        "them; `mcutrain simulate` shows how the model does on data"
    )


def _invoke(loaded: Any, values: Sequence[Array]) -> list[Array]:
    for detail, value in zip(loaded.get_input_details(), values, strict=True):
        loaded.set_tensor(detail["index"], value)
    loaded.invoke()
    return [np.array(loaded.get_tensor(d["index"])) for d in loaded.get_output_details()]


def _encode(integers: Array, kind: TensorType, dtype: Any) -> Array:
    """Our int8, or token ids, as the file's input type."""
    if kind.dtype == "int16":
        return integers.astype(dtype)
    if dtype == np.uint8:
        return (integers.astype(np.int16) + UINT8_OFFSET).astype(np.uint8)
    if dtype == np.float32:
        return ((integers.astype(np.float64) - kind.zero_point) * kind.scale).astype(np.float32)
    return integers


def _decode(found: Array, kind: TensorType) -> Array:
    """The file's output as our int8."""
    if found.dtype == np.uint8:
        return (found.astype(np.int16) - UINT8_OFFSET).astype(np.int8)
    if found.dtype == np.float32:
        integers = np.rint(found.astype(np.float64) / kind.scale) + kind.zero_point
        return np.asarray(np.clip(integers, -128, 127), np.int8)
    return found


def _rounding_twice(graph: Graph, node: Node) -> Node:
    op = node.op
    if not (isinstance(op, Conv2D) and op.requantize and op.requantize.rounds_once):
        return node
    x, w, _ = graph.types(node.inputs)
    (y,) = graph.types(node.outputs)
    stage = multipliers.fully_connected_requantize_rounding_twice(
        x.scale, w.scales, y.scale, y.zero_point
    )
    stage = replace(stage, low=op.requantize.low, high=op.requantize.high)
    return replace(node, op=replace(op, requantize=stage))
