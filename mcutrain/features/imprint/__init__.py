"""Imprinting: a few samples of a class give it its weights, without training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcutrain.errors import McutrainError
from mcutrain.features.feature import Code, ProgramFeature, Told

__all__ = ["FEATURE"]


def _code(code: Code, told: Told) -> Mapping[str, Any]:
    """The classifier: its features, and where its rows are. Raises McutrainError."""
    classifier = code.classifier
    assert classifier is not None, "it is on"
    if len(told.centre) != classifier.features:
        raise McutrainError(
            f"the centre has {len(told.centre)} features, but the classifier {classifier.node!r} "
            f"reads {classifier.features}: make it of samples of this model"
        )
    graph = code.training.graph
    names = (classifier.weight, classifier.residual, classifier.bias)
    state = ("NULL" if name is None else code.expression(graph, name) for name in names)
    first = ("NULL" if name is None else code.first(name) for name in names)
    return {
        "features": classifier.features,
        "zero_point": classifier.zero_point,
        "bits": classifier.bits,
        "centre": tuple(told.centre),
        "state": ", ".join(state),
        "first": ", ".join(first),
    }


FEATURE = ProgramFeature(
    name="imprint",
    is_on=lambda code, told: code.classifier is not None,
    code=_code,
    sources=lambda code, told: ("runtime/mct_imprint.c",),
    commands="imprint",
)
