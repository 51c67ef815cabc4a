"""What each of several outputs learns, and its labels in a row of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mcutrain.autodiff import OutputLoss
from mcutrain.data import Split, TargetPart, Targets
from mcutrain.errors import DataError, SchemeError, some_of
from mcutrain.ir.graph import Graph
from mcutrain.ops.several import MOST_WEIGHT
from mcutrain.ops.target_error import UNIT_STEPS, RealTargetError
from mcutrain.pipeline.losses import (
    AUTO,
    BINARY_CROSS_ENTROPY,
    CROSS_ENTROPY,
    NAMES_OF_SEVERAL,
    OF_TARGETS,
    Fitted,
    LossName,
    loss_of,
)
from mcutrain.quant import ends_in_sigmoids
from mcutrain.sparse import find_head

LEARNT: tuple[LossName, ...] = ("cross-entropy", "binary-cross-entropy", "mse", "huber", "absolute")
UNITS = {"mse": UNIT_STEPS**-2, "huber": UNIT_STEPS**-2, "absolute": 1 / UNIT_STEPS}
"""What makes the number of a loss operator one in the unit of its gradient; else it is."""


def row_targets(graph: Graph, losses: str) -> Targets:
    """What the outputs in a row learn. losses: as --losses has it, empty where outputs say it.

    Raises SchemeError for a loss that an output has not, and where none is said.
    """
    wanted = _wanted(graph, losses)
    parts = tuple(_part(single, name, *wanted[name]) for name, single in _singles(graph))
    return Targets(1.0, 0, parts=parts)


def losses_text(targets: Targets) -> str:
    """Return what row_targets reads."""
    return ",".join(f"{p.output}={p.loss}:{p.weight!r}" for p in targets.parts)


def row_losses(graph: Graph, targets: Targets) -> tuple[OutputLoss, ...]:
    """What makes the loss operators of outputs in a row. Raises SchemeError for other outputs."""
    text = losses_text(targets)
    if row_targets(graph, text) != targets:
        raise SchemeError(f"the outputs of {graph.name!r} are not those that learn {text}")
    found = []
    for part, (_, single) in zip(targets.parts, _singles(graph), strict=True):
        head = find_head(single)
        logits = single.tensors[single.logits_node(head.node).outputs[0]].type
        is_real = part.targets is not None
        loss = (
            RealTargetError.of(logits, OF_TARGETS[part.loss])
            if is_real
            else loss_of(single, part.loss)
        )
        found.append(OutputLoss(head.name, loss, part.weight, UNITS.get(part.loss, 1.0)))
    return tuple(found)


def fit_row(
    graph: Graph, split: Split, classes: int | str, losses: str, class_names: Sequence[str] = ()
) -> Fitted:
    """Fit the outputs in a row to samples with a row of labels. Raises DataError."""
    if class_names:
        raise DataError(NAMES_OF_SEVERAL)
    if isinstance(classes, int):
        raise DataError(
            f"--classes {classes} puts a new head there, but several outputs keep theirs: leave it "
            "out, or name one output (--model-output)"
        )
    targets = row_targets(graph, losses)
    count = sum(part.labels for part in targets.parts)
    if not split.has_targets or split.train.y.shape[1] != count:
        given = f"{split.train.y.shape[1]} numbers" if split.has_targets else "no row of numbers"
        needed = ", ".join(f"{p.labels} of {p.output!r}" for p in targets.parts)
        raise DataError(
            f"the outputs learn {count} numbers of a sample ({needed}), but the data has {given}: "
            "save an array named after each output, or y as float32 with all of them in a row"
        )
    coded = split.each(lambda part: replace(part, y=targets.codes(part.y)))
    notes = tuple(_clipped(targets, split))
    return Fitted(None, AUTO, coded, notes=notes, targets=targets)


def _clipped(targets: Targets, split: Split) -> Iterator[str]:
    for part, y in targets.of_parts(split.train.y):
        own = part.targets
        if own is not None and own.clipped(y):
            low, high = (float(end[0]) for end in own.reach)
            yield (
                f"{own.clipped(y):,} of {y.size:,} targets of {part.output!r} lie beyond what its "
                f"int8 outputs say, {low:g} to {high:g}, and are learnt as far as that goes"
            )


def _singles(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """The network with each of its outputs alone."""
    for name, tensor in zip(graph.output_names, graph.row, strict=True):
        yield name, replace(graph, outputs=(tensor,), row=(), output_names=())


def _wanted(graph: Graph, losses: str) -> dict[str, tuple[str, float]]:
    """Loss and weight of each output."""
    found: dict[str, tuple[str, float]] = {}
    for text in filter(None, losses.split(",")):
        name, _, said = text.rpartition("=")
        loss, _, weight = said.partition(":")
        if name not in graph.output_names:
            raise SchemeError(
                f"--losses says {text[:60]!a}, but the outputs are "
                f"{some_of(map(repr, graph.output_names))}: write NAME=LOSS or NAME=LOSS:WEIGHT"
            )
        if name in found:
            raise SchemeError(f"--losses names {name!r} twice: name each output once")
        if loss not in (*LEARNT, AUTO):
            raise SchemeError(
                f"there is no loss {loss[:40]!a} of an output: take {', '.join(LEARNT)}"
            )
        try:
            number = float(weight or 1)
        except ValueError:
            number = -1.0
        if not 0 < number <= MOST_WEIGHT:
            raise SchemeError(
                f"the loss of {name!r} has the weight {weight[:20]!a}: give a number above 0, up "
                f"to {MOST_WEIGHT:g}"
            )
        found[name] = (loss, number)
    return {name: found.get(name, (AUTO, 1.0)) for name in graph.output_names}


def _part(single: Graph, name: str, loss: str, weight: float) -> TargetPart:
    """Return what an output learns. single: the network with it alone."""
    is_share, y = single.gives_probabilities, single.tensors[single.outputs[0]].type
    if loss == AUTO and not is_share:
        raise SchemeError(
            f"the output {name!r} ends with its last layer, so it may learn classes or real "
            f"targets: say which, --losses {name}=cross-entropy or {name}=huber"
        )
    if loss == AUTO:
        loss = BINARY_CROSS_ENTROPY if ends_in_sigmoids(single) else CROSS_ENTROPY
    logits = single.tensors[single.logits_node(find_head(single).node).outputs[0]].type
    facts = (y.elements, logits.shape[-1], y.scale, y.zero_point, is_share)
    if loss in OF_TARGETS:
        if is_share:
            raise SchemeError(
                f"the output {name!r} gives probabilities, which {loss} does not learn: take "
                "cross-entropy, or a model whose output is the last layer"
            )
        return TargetPart(name, loss, weight, y.elements, *facts)
    labels = loss_of(single, loss)((1.0,), "int8", True, 0).label_type.elements
    return TargetPart(name, loss, weight, labels, *facts)
