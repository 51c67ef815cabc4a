"""Trained states as files: checkpoints of a simulation, states of a device, projects."""

from __future__ import annotations

import io
import json as json_text
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from mcutrain_host.files import is_file, write_whole
from mcutrain_host.manifest import FILE
from mcutrain_host.text import reason

from mcutrain.data import parse_names
from mcutrain.errors import DataError, StateError
from mcutrain.pipeline.recipe import Recipe, of_dict, of_json

TRAINED = "trained.mcts"  # what `mcutrain train` leaves in a project
CLASSES = ".classes.json"  # and beside a state, where its project does not name the classes
MOST_BYTES = 1 << 20


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
            if given is not None and values.get("class_names"):
                given = {**given, "class_names": values["class_names"]}
        except (OSError, ValueError, RecursionError) as error:
            raise StateError(
                f"{manifest} is damaged: {reason(error)}; generate the project anew"
            ) from error
        except (AttributeError, TypeError) as error:
            raise StateError(
                f"{manifest} is damaged: it is no table; generate the project anew"
            ) from error
        recipe = None if given is None else of_dict(given, str(manifest))
    return SavedRun(file, content, _with_names_beside(recipe, file))


def keep_names(state: Path, names: Sequence[str]) -> None:
    """Write the names of the classes beside a board's state, or that none are known."""
    place = state.with_suffix(CLASSES)
    if names:
        write_whole(place, json_text.dumps(list(names), ensure_ascii=False).encode())
    else:
        place.unlink(missing_ok=True)


def _with_names_beside(recipe: Recipe | None, state: Path) -> Recipe | None:
    """With what `keep_names` wrote, if it did. Raises StateError for what it did not write."""
    place = state.with_suffix(CLASSES)
    if recipe is None or not is_file(place):
        return recipe
    try:
        with place.open("rb") as file:
            return replace(recipe, class_names=parse_names(file.read(MOST_BYTES)))
    except (OSError, UnicodeDecodeError, DataError) as error:
        raise StateError(
            f"{place} is no list of class names ({reason(error)}): remove it, or train again"
        ) from error


def _read_checkpoint(path: Path, content: bytes) -> SavedRun:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            saved = file["saved"].astype(np.uint8).tobytes()
            text = str(file["recipe"]) if "recipe" in file else ""
    except Exception as error:
        raise StateError(f"{path} is no checkpoint of mcutrain, or a damaged one") from error
    return SavedRun(path, saved, of_json(text, str(path)) if text else None)
