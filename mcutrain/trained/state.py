"""Trained states as files: checkpoints of a simulation, states of a device, projects."""

from __future__ import annotations

import json as json_text
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import HostError, StateTooLongError
from mcutrain_host.manifest import FILE
from mcutrain_host.reading import MOST_TEXT_BYTES, opened, read_text
from mcutrain_host.saved import MAGIC, StateFile
from mcutrain_host.text import reason

from mcutrain.data.array_file import ArrayFile, TooLargeError, array_file
from mcutrain.errors import DataError, StateError
from mcutrain.pipeline.recipe import Recipe, of_dict, of_json

TRAINED = "trained.mcts"  # what `mcutrain train` leaves in a project


@dataclass(frozen=True)
class SavedRun:
    """A file with a state, and how it was trained if that is known. where: for sentences."""

    where: Path
    recipe: Recipe | None = None

    def check(self) -> None:
        """Raise StateError if a state that does not say how it was trained is damaged, too."""
        if _is_archive(self.where):
            return
        try:
            StateFile.of(self.where).check()
        except HostError as error:
            raise StateError(str(error)) from error

    def saved(self, saved_bytes: int) -> bytes:
        """The state, which has so many bytes with its header; nothing longer is read.

        Raises StateError, and HostError as `StateFile.read`.
        """
        if not _is_archive(self.where):
            return StateFile.of(self.where).read(saved_bytes).raw
        with _checkpoint(self.where) as file:
            try:
                return file.octets("saved", saved_bytes)
            except TooLargeError as error:
                raise StateTooLongError(f"{self.where}: {error}") from error


def read_state(path: Path) -> SavedRun:
    """Return what a checkpoint, a state file, or a project says of its state.

    Raises StateError, McutrainError.
    """
    file = path / TRAINED if path.is_dir() else path
    try:
        if _is_archive(file):
            with _checkpoint(file) as content:
                if "saved" not in content:
                    raise DataError("it holds no state")
                text = content.text("recipe", MOST_TEXT_BYTES) if "recipe" in content else ""
        else:
            state = StateFile.of(file)
            text = state.recipe
            if path.is_dir():
                _check_of_project(state, path)
    except OSError as error:
        hint = "; `mcutrain train` writes it there" if path.is_dir() else ""
        raise StateError(f"cannot read {file}: {error.strerror or error}{hint}") from error
    except HostError as error:
        raise StateError(str(error)) from error
    if text:
        return SavedRun(file, of_json(text, str(file)))
    return SavedRun(file, _recipe_beside(file))


def is_state(path: Path) -> bool:
    """Return whether it is a project, or begins as a saved state or a checkpoint does."""
    if path.is_dir():
        return (path / FILE).is_file()
    try:
        with opened(path) as file:
            return file.read(4) in (MAGIC, b"PK\3\4")
    except OSError:
        return False


def _is_archive(path: Path) -> bool:
    """Return whether it is a checkpoint. Raises OSError."""
    with opened(path) as file:
        return file.read(2) == b"PK"


def _check_of_project(state: StateFile, folder: Path) -> None:
    """Raise StateError where the project was generated otherwise after the state was trained."""
    manifest = folder / FILE
    if state.wrong or not manifest.is_file():
        return
    now = _manifest(manifest).get("model_hash")
    if now != f"{state.model_hash:016x}":
        raise StateError(
            f"{state.path} was trained with another model or scheme than {folder} has now "
            f"(generated anew since?): give --state {shlex.quote(str(state.path))} for what was "
            "trained then, or train the project"
        )


def _manifest(path: Path) -> dict[str, Any]:
    """Read a manifest. Raises StateError."""
    damaged, anew = f"{path} is damaged: ", "; generate the project anew"
    try:
        values = json_text.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise StateError(damaged + reason(error) + anew) from error
    if not isinstance(values, dict):
        raise StateError(f"{damaged}it is no table{anew}")
    return values


def _recipe_beside(file: Path) -> Recipe | None:
    """Read the recipe of the project that the file lies in; older states have none of their own."""
    manifest = file.parent / FILE
    if not manifest.is_file():
        return None
    values = _manifest(manifest)
    given = values.get("recipe")
    if given is not None and values.get("class_names"):
        if not isinstance(given, dict):
            raise StateError(f"{manifest} is damaged: it is no table; generate the project anew")
        given = {**given, "class_names": values["class_names"]}
    return None if given is None else of_dict(given, str(manifest))


@contextmanager
def _checkpoint(path: Path) -> Iterator[ArrayFile]:
    try:
        with array_file(path) as file:
            yield file
    except DataError as error:
        raise StateError(
            f"{path} is no checkpoint of mcutrain, or a damaged one: {error}"
        ) from error
