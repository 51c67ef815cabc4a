"""Which operators are read, taken from the tables that read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mcutrain.formats.onnx import float_rules as onnx_float
from mcutrain.formats.onnx import operators as onnx_int8
from mcutrain.formats.tflite.operators import OPERATORS as TFLITE


@dataclass(frozen=True)
class Known:
    """An operator of a file format. int8: in models to train; float: in models to quantize.

    reason: why the one of them that is not read is not, in a few words.
    """

    name: str
    int8: bool
    float: bool
    reason: str = ""

    @property
    def cells(self) -> tuple[str, str]:
        """Of a table: int8, float."""
        return "yes" if self.int8 else self.reason, "yes" if self.float else self.reason


ONNX_REASONS: dict[str, str] = {}


def known() -> dict[str, tuple[Known, ...]]:
    """By format: .tflite, .onnx; the names ascending."""
    return {
        ".tflite": tuple(
            Known(name, one.int8 is not None, one.real is not None, one.reason)
            for name, one in sorted(TFLITE.items())
        ),
        ".onnx": _joined(tuple(onnx_int8.RULES), tuple(onnx_float.RULES), ONNX_REASONS),
    }


def _joined(
    int8: tuple[str, ...], real: tuple[str, ...], reasons: Mapping[str, str]
) -> tuple[Known, ...]:
    return tuple(
        Known(name, name in int8, name in real, reasons.get(name, ""))
        for name in sorted({*int8, *real})
    )


def markdown() -> str:
    """A table per format, as docs/operators.md has them."""
    lines = []
    for file_format, operators in known().items():
        lines += ["", f"| operator in `{file_format}` | int8, to train | float, to quantize |"]
        lines.append("|---|---|---|")
        for one in operators:
            lines.append(f"| {one.name} | {' | '.join(one.cells)} |".replace("  |", " |"))
    return "\n".join(lines[1:]) + "\n"
