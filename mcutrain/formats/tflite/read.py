"""Readers of .tflite models: int8 ones to train, float ones to quantize."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mcutrain.errors import UnsupportedError
from mcutrain.formats.obstacles import Obstacles
from mcutrain.formats.outputs import kept as outputs_kept
from mcutrain.formats.outputs import needed
from mcutrain.formats.tflite import (
    choices,
    expressions,
    islands,
    normalizing,
    recurrent,
    repeating,
)
from mcutrain.formats.tflite.cutting import with_plain_ids
from mcutrain.formats.tflite.file import (
    MISSING,
    FileModel,
    has_tensor_of,
    is_float,
    naming,
    read_file,
)
from mcutrain.formats.tflite.float_operator import Importer
from mcutrain.formats.tflite.int8_operator import Converter
from mcutrain.formats.tflite.operators import FLOAT_RULES, INT8_RULES
from mcutrain.formats.tflite.shapes import VIEWS
from mcutrain.formats.tflite.uint8 import as_int8, is_uint8
from mcutrain.formats.tflite.variables import NAMES, as_step, has_variables
from mcutrain.ir.graph import Graph
from mcutrain.quant.canonical import canonical
from mcutrain.quant.float_graph import FloatGraph
from mcutrain.quant.stepping import StateRing, window_of

_INT8 = {
    **INT8_RULES,
    islands.NAME: islands.table,
    repeating.NAME: repeating.repeated,
    choices.NAME: choices.table,
}
_JOINED = (islands.NAME, repeating.NAME, choices.NAME)


def load_tflite(path: str | Path) -> Graph:
    """The int8 graph of a .tflite file, in canonical form. Raises ModelError with a sentence.

    It computes what TFLite's reference kernels of int8 do, bit for bit. Inputs and outputs are the
    int8 tensors: QUANTIZE and DEQUANTIZE at the edges are dropped. A uint8 tensor, there or in the
    whole model, stands for its integers minus 128.
    """
    path = Path(path)
    with naming(path):
        model = with_plain_ids(_with_kept_outputs(read_file(path)))
        _refuse_int16(model)
        _refuse_float(model)
        model, _ = as_int8(model)
        if has_variables(model) and all(op.name in (*NAMES, *INT8_RULES) for op in model.operators):
            return canonical(_window(model, path.stem))
        model = islands.with_tables(repeating.with_repeats(model))
        model = _without_unread(choices.with_cases(model, INT8_RULES))
        return canonical(Converter(model, _INT8).graph(path.stem))


def _without_unread(model: FileModel) -> FileModel:
    """The model without the operators whose outputs nothing reads any more."""
    if not any(op.name in _JOINED for op in model.operators):
        return model
    operators = needed(model.operators, model.outputs, lambda op: (op.inputs, op.outputs))
    return replace(model, operators=tuple(operators))


def _window(model: FileModel, name: str) -> Graph:
    """The network over the window on which an output of a streaming model depends."""
    obstacles = Obstacles(op.name for op in model.operators)
    with obstacles.told(tuple):
        step, variables = as_step(model)
        graph = Converter(step, INT8_RULES).graph(name)
        if not variables:
            return graph  # what is kept is not read
        edges = zip(graph.inputs[-len(variables) :], graph.outputs[-len(variables) :], strict=True)
        return window_of(graph, (StateRing(*edge) for edge in edges))


def _with_kept_outputs(model: FileModel) -> FileModel:
    """Keep the outputs that were chosen, if some were, and the operators that they need."""
    if MISSING in model.outputs:
        return model
    kept = outputs_kept([model.tensors[i].name for i in model.outputs])
    if kept == tuple(range(len(model.outputs))):
        return model
    outputs = tuple(model.outputs[i] for i in kept)
    operators = needed(model.operators, outputs, lambda op: (op.inputs, op.outputs))
    return replace(model, outputs=outputs, operators=tuple(operators))


def rounding_of_uint8(path: Path) -> str:
    """How a file of uint8 became int8, as a clause; nothing for others. Raises ModelError."""
    with naming(path):
        if not has_tensor_of(path, "uint8"):
            return ""
        model = read_file(path)
        if not is_uint8(model):
            return ""
        return f"the file is uint8; {as_int8(model)[1]}"


def read_tflite(path: Path) -> FloatGraph:
    """The float graph of a .tflite file. Raises ModelError with a sentence.

    Weights may be int8 with scales (a dynamic-range quantized file): they are read as real numbers.
    """
    with naming(path):
        file = with_plain_ids(_with_kept_outputs(read_file(path)))
        _refuse_int16(file)
        model = recurrent.with_layers(_without_unread(repeating.with_repeats(file)))
        model = expressions.with_functions(normalizing.with_layer_norms(model))
        parts = {
            normalizing.NAME: normalizing.layer_norm,
            expressions.NAME: expressions.function,
            repeating.NAME: repeating.repeated,
        }
        rules = {**FLOAT_RULES, **parts}
        return Importer(model, rules, VIEWS).graph(path.stem)


def is_hybrid(path: Path) -> bool:
    """Return whether weights are int8: the interpreter then rounds activations too, as it goes."""
    return any(t.data is not None and t.dtype == "int8" for t in read_file(path).tensors)


def _refuse_int16(model: FileModel) -> None:
    """A model with 16-bit activations: what else is in its way would be of no use."""
    for operator in model.operators:
        for i in operator.outputs:
            if i != MISSING and model.tensors[i].dtype == "int16":
                raise UnsupportedError(
                    f"the activations are int16 (tensor {model.tensors[i].name!r}); supported are "
                    "int8 ones: convert the model with TFLITE_BUILTINS_INT8, or give the float one"
                )


def _refuse_float(model: FileModel) -> None:
    """A model without any int8 activation was never quantized."""
    computed = [model.tensors[i] for op in model.operators for i in op.outputs if i != MISSING]
    if computed and is_float(t.dtype for t in computed):
        raise UnsupportedError(
            "this is a float model; quantize it to int8 first: `mcutrain quantize` does it, or "
            "TensorFlow Lite's full integer quantization"
        )
