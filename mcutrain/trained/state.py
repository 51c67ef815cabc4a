"""Trained states as files: checkpoints of a simulation, states of a device, projects."""

from __future__ import annotations

import io
import json as json_text
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mcutrain_host.manifest import FILE
from mcutrain_host.text import reason

from mcutrain.errors import StateError
from mcutrain.pipeline.recipe import Recipe, of_dict, of_json

TRAINED = "trained.mcts"  # what `mcutrain train` leaves in a project


@dataclass(frozen=True)
class SavedRun:
    """A state, and how it was trained if that is known. where: for sentences."""

    where: Path
    saved: bytes
    recipe: Recipe | None = None


def read_state(path: Path) -> SavedRun:
    """The state in a checkpoint, a state file, or a project. Raises StateError, McutrainError."""
    file = path / TRAINED if path.is_dir() else path
    try:
        content = file.read_bytes()
    except OSError as error:
        hint = "; `mcutrain train` writes it there" if path.is_dir() else ""
        raise StateError(f"cannot read {file}: {error.strerror or error}{hint}") from error
    if content[:2] == b"PK":
        return _read_checkpoint(file, content)
    recipe = None
    manifest = file.parent / FILE
    if manifest.is_file():
        try:
            values = json_text.loads(manifest.read_text(encoding="utf-8"))
            given = values.get("recipe")
        except (OSError, ValueError, RecursionError) as error:
            raise StateError(
                f"{manifest} is damaged: {reason(error)}; generate the project anew"
            ) from error
        except AttributeError as error:
            raise StateError(
                f"{manifest} is damaged: it is no table; generate the project anew"
            ) from error
        recipe = None if given is None else of_dict(given, str(manifest))
    return SavedRun(file, content, recipe)


def _read_checkpoint(path: Path, content: bytes) -> SavedRun:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            saved = file["saved"].astype(np.uint8).tobytes()
            text = str(file["recipe"]) if "recipe" in file else ""
    except Exception as error:
        raise StateError(f"{path} is no checkpoint of mcutrain, or a damaged one") from error
    return SavedRun(path, saved, of_json(text, str(path)) if text else None)
