"""Which operators are read, taken from the tables that read them."""

from __future__ import annotations

from mcutrain_host.dataclass import dataclass

from mcutrain.formats.onnx.operators import OPERATORS as ONNX
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
        """Cells of a table: int8, float."""
        return "yes" if self.int8 else self.reason, "yes" if self.float else self.reason


def known() -> dict[str, tuple[Known, ...]]:
    """Return the known operators by format (.tflite, .onnx), names ascending."""
    tflite = {name: (one.int8_rule, one.float_rule, one.reason) for name, one in TFLITE.items()}
    onnx = {name: (one.int8, one.real, one.reason) for name, one in ONNX.items()}
    return {
        file_format: tuple(
            Known(name, int8 is not None, real is not None, reason)
            for name, (int8, real, reason) in sorted(rules.items())
        )
        for file_format, rules in ((".tflite", tflite), (".onnx", onnx))
    }


def markdown() -> str:
    """A table per format, as docs/operators.md has them."""
    lines = []
    for file_format, operators in known().items():
        lines += ["", f"| operator in `{file_format}` | int8, to train | float, to quantize |"]
        lines.append("|---|---|---|")
        for one in operators:
            lines.append(f"| {one.name} | {' | '.join(one.cells)} |".replace("  |", " |"))
    return "\n".join(lines[1:]) + "\n"
