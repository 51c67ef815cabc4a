"""A training step from Python, with every option as a keyword."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from mcutrain import pipeline
from mcutrain.arguments import Count, PathLike, Within, checked
from mcutrain.ir.graph import Graph
from mcutrain.memplan import Ladder, Stream
from mcutrain.pipeline import MakesLadder, Part, StepOptions, TrainingStep
from mcutrain.pipeline.options import MOST_ACCUMULATED
from mcutrain.quant import HeadStart
from mcutrain.sparse import UpdateScheme, as_scheme


@checked
def prepare(
    model: Graph | PathLike,
    scheme: UpdateScheme | PathLike = "head",
    *,
    classes: Count | None = None,
    head_seed: int = 0,
    head_start: HeadStart | None = None,
    gradient_dtype: Literal["int8", "int16"] = "int8",
    accumulate: Annotated[int, Within(1, MOST_ACCUMULATED)] = 1,
    qas: bool = True,
    loss: str = "cross-entropy",
    added: Sequence[str] = (),
    gate: float | None = None,
    elastic: bool = False,
    swap: Literal["", "drawn", "fisher"] = "",
    stream: Stream = "least",
    part: Part = "whole",
    latent: str = "auto",
    ladder: Ladder | MakesLadder | None = None,
    drift: bool = False,
    class_names: Sequence[str] = (),
    report: Callable[[int, int], None] = lambda nodes, of: None,
) -> TrainingStep:
    """The planned training step of a model under an update scheme.

    scheme: an UpdateScheme or what parse_scheme reads. classes: replaces the classifier by a new
    one with so many outputs; None keeps the model's own. A new one learns at the scheme's
    head_rate, by default NEW_HEAD_RATE (see UpdateScheme). head_start: what it starts from instead
    of zeros, see mcutrain.runs.head_start. head_seed: rounds the weights of added classes.
    gradient_dtype: int8 or int16. accumulate: samples per update. qas: quantization-aware scaling.
    loss: cross-entropy, mse (the outputs are to be the inputs, there are no labels) or auto, see
    mcutrain.pipeline.losses. stream: what of the step computes row by row, so that its images never
    lie in memory as a whole: least as much as makes the arena smallest, off nothing, max what makes
    the front smallest. auto is the same as least here: where a memory is known, `plan` and
    `generate` then compute less row by row (mcutrain.cost.streaming). added: names of classes that
    the classifier learns in addition to its own, which stay as they are (see
    mcutrain.quant.add_classes). gate: a step learns only from a sample with a loss above so many
    times the mean of late ones, such as 0.8; None from all. elastic: what the scheme trains can be
    left out while it runs, tensor by tensor. swap: of the layers that it trains in part, other
    channels can be trained while it runs, drawn anew each time (drawn), or, when each has had its
    turn, those that moved most in it (fisher). part: tail leaves out what lies before the latent,
    and takes latents for samples, which somebody else makes (see mcutrain.pipeline.front_of);
    latent: which one, see mcutrain.memplan.find_latent. ladder: fronts of which a policy takes one
    for each sample (see mcutrain.memplan.Ladder), or what makes or reads them for this step's own
    front. drift: what samples taught corrects the policy, so that more or fewer take the cheaper
    ones. class_names: of its outputs; by default the model's own and the added ones, if the
    classifier stays. They change nothing that is computed. report: called during a search for a
    smaller arena, which can take 20 seconds, with the nodes so far and the most there can be.

    Raises ModelError, SchemeError, PlanError, ArgumentError.

    >>> prepare("model.int8.tflite", "last:3", classes=10).plan.sram_bytes
    """
    options = StepOptions(
        gradient_dtype,
        accumulate,
        gate,
        elastic,
        swap,
        classes=classes,
        added=tuple(added),
        class_names=tuple(class_names),
        loss=loss,
        part=part,
        latent=latent,
        drift=drift,
    )
    return pipeline.prepare(
        model,
        with_qas(scheme, qas),
        options,
        ladder=ladder,
        head_start=head_start,
        head_seed=head_seed,
        stream=stream,
        report=report,
    )


def with_qas(scheme: UpdateScheme | PathLike, qas: bool) -> UpdateScheme:
    """The scheme, without quantization-aware scaling where it is not wanted."""
    chosen = as_scheme(scheme)
    return chosen if qas else replace(chosen, qas=False)
