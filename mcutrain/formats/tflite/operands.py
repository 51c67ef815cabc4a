"""One operator of a file with what it reads and writes: what int8 and float models share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.file import MISSING, FileModel, FileOperator, FileTensor

MOST_INTEGERS = 64  # of a constant that says axes or widths

ACTIVATIONS = {
    tflite.ActivationFunctionType.NONE: "none",
    tflite.ActivationFunctionType.RELU: "relu",
    tflite.ActivationFunctionType.RELU6: "relu6",
    tflite.ActivationFunctionType.RELU_N1_TO_1: "relu_n1_to_1",
}
"""The fused activations by their numbers in a file."""


class Operands:
    """An operator of the file; a reader adds what the graph in the making knows of its tensors."""

    def __init__(self, model: FileModel, op: FileOperator) -> None:
        self.model, self.op = model, op
        known = [model.tensors[i].name for i in op.outputs if i != MISSING]
        self.where = f"operator {op.name} (node {known[0] if known else '?'!r})"

    def has(self, position: int) -> bool:
        """Whether an input is there."""
        return position < len(self.op.inputs) and self.op.inputs[position] != MISSING

    def input_index(self, position: int) -> int:
        """The index of a required input."""
        if not self.has(position):
            raise ModelError(f"{self.where} has no input {position}")
        return self.op.inputs[position]

    def output_index(self) -> int:
        """The index of the one output."""
        if len(self.op.outputs) != 1 or self.op.outputs[0] == MISSING:
            raise ModelError(f"{self.where} has {len(self.op.outputs)} outputs instead of one")
        return self.op.outputs[0]

    def file_tensor(self, position: int) -> FileTensor:
        """The file's tensor of a required input."""
        return self.model.tensors[self.input_index(position)]

    def integers(self, position: int) -> list[int]:
        """A constant input of int32 or int64."""
        t = self.file_tensor(position)
        if t.data is None or t.dtype not in ("int32", "int64") or t.data.size > MOST_INTEGERS:
            raise UnsupportedError(f"{self.where}: {t.name!r} must be a constant of a few integers")
        return [int(v) for v in t.data.ravel()]

    def options(self, table: type[Any]) -> Any:
        """The operator's options, whose type is told by the name of its table."""
        return self.op.table(table, self.where)

    def activation(self, options: Any) -> str:
        """The name of the fused activation."""
        code = options.FusedActivationFunction()
        if code not in ACTIVATIONS:
            names = ", ".join(name.upper() for name in ACTIVATIONS.values())
            raise UnsupportedError(
                f"{self.where} has the fused activation {code}; supported are {names}"
            )
        return ACTIVATIONS[code]


AnyOperands = TypeVar("AnyOperands", bound=Operands)


def apply(rules: Mapping[str, Callable[[AnyOperands], None]], o: AnyOperands) -> None:
    """Add the operator to its graph by its rule. Raises ModelError."""
    rule = rules.get(o.op.name)
    if rule is None:
        raise UnsupportedError(
            f"{o.where} is not supported; supported are {', '.join(sorted(rules))}"
        )
    try:
        rule(o)
    except ModelError:
        raise
    except ValueError as error:
        raise ModelError(f"{o.where}: {error}") from error
