"""mcutrain diff: which parameters of two models differ, and by how much."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mcutrain.cli.output import percent, show, show_json, show_table
from mcutrain.cli.shared_flags import Json, argument

if TYPE_CHECKING:
    from mcutrain.trained import Changes, TensorChange


def diff(
    first: Annotated[
        Path,
        argument("A", "An int8 .tflite or QDQ .onnx file, or a state."),
    ],
    second: Annotated[Path, argument("B", "Another one.")],
    json: Json = False,
) -> None:
    """Compare the weights and biases of two models by name, and their structure.

    One of them may be what was trained of the other: a checkpoint, a state (.mcts) or a project.
    Largest and mean difference are those of the stored integers, so in units of the scale.

    Example: `mcutrain diff model.tflite trained.tflite`
    """
    from mcutrain.functions.models import diff as changes_of

    changes = changes_of(first, second)
    if json:
        show_json({"first": str(first), "second": str(second), **changes.to_dict()})
    else:
        _print(changes)


def _print(changes: Changes) -> None:
    rows = [_row(t) for t in changes.tensors if t.differing]
    if rows:
        columns = ("tensor", "changed", "of", "share", "largest", "mean", "largest real")
        show_table(columns, rows)
    for tensor in changes.tensors:
        if tensor.structure:
            show(f"{tensor.name}: {tensor.structure}")
    for sentence in changes.structure:
        show(sentence)
    count = len(changes.tensors)
    if changes.are_equal:
        show(f"equal: {changes.compared} weights and biases, and all operators")
    elif not changes.compared:
        show("no weight or bias has the same name in both: are they of one model?")
    else:
        show(f"{count} of {changes.compared} weights and biases differ")


def _row(tensor: TensorChange) -> list[object]:
    return [
        tensor.name,
        tensor.differing,
        tensor.elements,
        percent(tensor.differing / tensor.elements),
        tensor.largest,
        f"{tensor.mean:.3g}",
        f"{tensor.largest_real:.3g}",
    ]
