"""Latents: steps and inferences may begin with what the frozen front makes of a sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.errors import McutrainError
from mcutrain.features.feature import Code, ProgramFeature, Told

__all__ = ["FEATURE"]


def _check(training: TrainGraph, told: Told, is_board: bool) -> None:
    """Raise McutrainError for a tail, which begins with nothing else."""
    if training.is_tail and told.latent is not None:
        raise McutrainError(
            "a tail takes nothing but latents, so it needs no functions of its own for them: leave "
            "out the interface's latent"
        )


def _code(code: Code, told: Told) -> Mapping[str, Any]:
    """The latent: its place, bytes and meaning."""
    latent = code.latent
    assert latent is not None, "it is on"
    return {
        "name": latent.tensor,
        "place": code.expression(code.training.graph, latent.tensor),
        "bytes": latent.type.size_bytes,
        "shape": " x ".join(map(str, latent.type.shape[1:])),
        "scale": f"{latent.type.scale:.9g}",
        "zero_point": latent.type.zero_point,
    }


FEATURE = ProgramFeature(
    name="latents",
    value="latent",
    is_on=lambda code, told: code.latent is not None,
    over=("imprint",),
    check=_check,
    code=_code,
    commands="latent",
)
