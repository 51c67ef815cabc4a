"""mcutrain profile: what a training step takes, node by node and tensor by tensor."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mcutrain.cli import shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import percent, show, show_json, show_table
from mcutrain.functions.board_options import LineOptions
from mcutrain.functions.files import check_writable, replace_file
from mcutrain.functions.options import MeasureOptions, ProfiledRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcutrain.cost.profile import StepProfile


def profile(
    model: Annotated[
        Path,
        shared_flags.argument(
            "MODEL|DIR",
            "An int8 .tflite or QDQ .onnx file; or, with a board, the project that "
            "`mcutrain generate --board B --timed` wrote.",
        ),
    ],
    scheme: shared_flags.Scheme = "head",
    classes: shared_flags.Classes = shared_flags.KEEP,
    *,
    request: ProfiledRequest,
    measure: MeasureOptions,
    line: LineOptions,
    output: Annotated[
        Path | None,
        shared_flags.written(
            "FILE",
            "Write it there, too, for `generate --elastic --profile FILE` and "
            "`simulate --elastic SHARE --profile FILE`.",
        ),
    ] = None,
    json: shared_flags.Json = False,
) -> None:
    """Show the instructions or time of each node and each trained tensor of a step.

    For a model in instructions, estimated. --count also counts them on the board's virtual twin,
    --here also takes nanoseconds on this computer. For a project in cycles of its board: that
    trains on noise meanwhile, and restarts at the end with the state that it had saved.

    Example: `mcutrain profile model.tflite --scheme last:6 --board nucleo-f446re --count`

    Example: `mcutrain profile project --port /dev/ttyACM0 -o profile.json`
    """
    from mcutrain.functions.profiling import profile as profiled

    if output is not None:
        check_writable(output)
    found = profiled(
        model,
        scheme,
        classes=shared_flags.new_classes(classes),
        request=request,
        measure=measure,
        line=line,
        listener=OnScreen(json),
    )
    facts = {"file": str(model), **found.to_dict()}
    if output is not None:
        replace_file(output, (json_text.dumps(facts, indent=2) + "\n").encode())
    if json:
        show_json(facts)
    else:
        _print(facts, found.profile)


def _print(facts: dict[str, Any], counted: StepProfile) -> None:
    is_counted = counted.per_instruction is not None
    what = "counted" if counted.error is not None else counted.unit
    columns = ["node", "kernel", "for", "estimated", *([what] if is_counted else [])]
    rows = [
        [n.name, n.kernel, n.tensor or n.of, n.estimated, *([n.counted] if is_counted else [])]
        for n in counted.nodes
    ]
    chip = facts["board"] or ("this computer" if counted.unit == "ns" else "a Cortex-M4 or M7")
    show(f"{facts['model']}, scheme {facts['scheme']}: {counted.unit} of a step on {chip}")
    show_table(columns, rows, 3, names=(0, 1, 2))
    show_table(
        ("tensor", "its update", "the gradient up to it"),
        [[t.name, t.update, t.backward] for t in counted.tensors],
        names=(0,),
    )
    forward, backward, update = (facts[part] for part in ("forward", "backward", "update"))
    show(
        f"In all {forward + backward + update:,}: forward and loss {forward:,}, gradients "
        f"{backward:,}, updates {update:,}."
    )
    for line in _of_the_model(counted):
        show(line)


def _of_the_model(counted: StepProfile) -> Iterator[str]:
    """Return how far it is from what was counted."""
    if counted.per_instruction is None or counted.misplaced is None:
        return
    if counted.error is not None:
        side = "more" if counted.error >= 0 else "less"
        yield f"The model estimates {percent(abs(counted.error))} {side} than was counted."
        return
    yield (
        f"{counted.per_instruction:.3g} {counted.unit} for each instruction that the model "
        f"estimates. {percent(counted.misplaced)} of the time goes to other nodes than it says."
    )
