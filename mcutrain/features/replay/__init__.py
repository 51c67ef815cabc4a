"""Replay: a library keeps latents in a ring, and trains on them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.errors import McutrainError
from mcutrain.features.feature import Code, ProgramFeature, Told

__all__ = ["FEATURE", "bytes_of_ring"]


def bytes_of_ring(latents: int, latent_bytes: int) -> int:
    """Bytes of a ring in a library's memory: a count, labels and latents."""
    return -(-(4 + latents * (4 + latent_bytes)) // 4) * 4


def _check(training: TrainGraph, told: Told, is_board: bool) -> None:
    """Raise McutrainError for samples that have no one label."""
    if training.positions and told.remember:
        raise McutrainError(
            "remembered samples have one label each, but this network learns a label for each "
            f"of {training.label_type.elements:,} positions: leave out --remember"
        )


def _code(code: Code, told: Told) -> Mapping[str, Any]:
    """Return how many latents the ring holds; a tail's are its samples."""
    x = code.training.input_type if code.latent is None else code.latent.type
    return {"slots": told.remember, "bytes": bytes_of_ring(told.remember, x.size_bytes)}


FEATURE = ProgramFeature(
    name="replay",
    value="ring",
    is_on=lambda code, told: told.remember > 0 and code.is_library,
    check=_check,
    code=_code,
    commands="replay",
)
