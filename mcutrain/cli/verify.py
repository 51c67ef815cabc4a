"""mcutrain verify: our forward pass against the file's own runtime."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import percent, show, show_json, show_table
from mcutrain.cli.shared_flags import Json, Model, Seed, option
from mcutrain.functions.run_options import ReadingOptions

if TYPE_CHECKING:
    from mcutrain.oracle.forward import Verdict


def verify(
    model: Model,
    data: Annotated[
        Path | None,
        option(
            "Compare on these samples instead of random inputs: what `mcutrain simulate` "
            "reads; those for the test, drawn by the seed, of every class alike."
        ),
    ] = None,
    *,
    samples: Annotated[int, typer.Option(min=1, help="Inputs, at most.")] = 200,
    reference_samples: Annotated[
        int, typer.Option(min=0, help="How many of them the slow numpy reference computes too.")
    ] = 20,
    reading: ReadingOptions,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Compare the forward pass, as numpy and as C, with TFLite's reference kernels or onnxruntime.

    For a .tflite file every output must be equal: exit code 1 if one differs. A file of uint8 is
    compared in its int8 form, and how far that is from the file is shown. onnxruntime
    computes in floating point; its two optimisation levels differ from each other, and are shown.

    Example: `mcutrain verify model.tflite`

    Example: `mcutrain verify model.tflite --data images/ --samples 500`
    """
    from mcutrain.functions.models import verify as compared

    verdict = compared(
        model,
        data,
        samples=samples,
        reference_samples=reference_samples,
        seed=seed,
        reading=reading,
        listener=OnScreen(json),
    )
    if json:
        of = None if data is None else str(data)
        show_json({"file": str(model), "data": of, **verdict.to_dict()})
    else:
        _print(verdict)
    if not verdict.is_right:
        raise typer.Exit(1)


def _print(verdict: Verdict) -> None:
    columns = ("computed by", "against", "samples", "outputs", "differing", "largest", "same class")
    rows = [
        [
            c.of,
            c.against,
            c.samples,
            c.outputs,
            c.differing if verdict.exact else f"{100 * c.differing / c.outputs:.2f} %",
            c.largest,
            percent(c.same_class),
        ]
        for c in (*verdict.comparisons, *([verdict.original] if verdict.original else []))
    ]
    show_table(columns, rows, left=2)
    if verdict.note:
        kernels = "; uint8 kernels round differently, too" if verdict.original else ""
        show(f"{verdict.note}{kernels}.")
    if verdict.exact:
        compared = " that was compared" if verdict.unchecked else ""
        text = f"every output{compared} is equal" if verdict.is_right else "OUTPUTS DIFFER"
        show(f"{text}: {verdict.runtime}")
    else:
        show(
            "onnxruntime computes in floating point; the first row shows how far its two "
            "optimization levels differ."
        )
        show("mean and largest: the difference, in steps of the output's scale.")
    for what in verdict.unchecked:
        show(f"NOT checked: {what}")
