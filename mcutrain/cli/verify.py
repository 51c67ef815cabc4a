"""mcutrain verify: our forward pass against the file's own runtime."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from mcutrain.cli.options import Json, Model, Seed
from mcutrain.cli.output import count_bar, percent, show, show_json, show_table

if TYPE_CHECKING:
    from mcutrain.oracle import Verdict


def verify(
    model: Model,
    samples: Annotated[int, typer.Option(min=1, help="Random inputs.")] = 200,
    reference_samples: Annotated[
        int, typer.Option(min=0, help="How many of them the slow numpy reference computes too.")
    ] = 20,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Compare the forward pass, as numpy and as C, with TFLite's reference kernels or onnxruntime.

    For a .tflite file every output must be equal: exit code 1 if one differs. onnxruntime
    computes in floating point; its two optimisation levels differ from each other, and are shown.

    Example: `mcutrain verify model.tflite`
    """
    from mcutrain.oracle import compare

    with count_bar(json) as bar:
        task = bar.add_task("")

        def report(what: str, done: int, of: int) -> None:
            bar.update(task, description=what, completed=done, total=of)

        verdict = compare(model, samples, reference_samples, seed, report)
    if json:
        comparisons = [asdict(c) for c in verdict.comparisons]
        show_json(
            {
                "file": str(model),
                "runtime": verdict.runtime,
                "exact": verdict.exact,
                "is_right": verdict.is_right,
                "comparisons": comparisons,
                "unchecked": list(verdict.unchecked),
            }
        )
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
        for c in verdict.comparisons
    ]
    show_table(columns, rows, left=2)
    for what in verdict.unchecked:
        show(f"not checked: {what}")
    if verdict.exact:
        verdict_text = "every output is equal" if verdict.is_right else "OUTPUTS DIFFER"
        show(f"{verdict_text}: {verdict.runtime}")
    else:
        show("onnxruntime computes in floating point; its two levels differ as the first row says.")
        show("mean and largest: difference in steps of the output's scale.")
