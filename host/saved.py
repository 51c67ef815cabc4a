"""A trained state in a file: header, checksum and state, as mct_state_save writes them.

Behind them a file says how the step was made from the model, its recipe, as JSON; mct_state_load
takes the bytes before. Files of earlier versions end there.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcutrain_host.errors import ModelMismatchError, StateFileError, StateTooLongError
from mcutrain_host.files import unwritable, write_whole
from mcutrain_host.reading import MOST_TEXT_BYTES, opened, size_of
from mcutrain_host.text import reason

if TYPE_CHECKING:
    from mcutrain_host.manifest import ElasticSelection, StateTensor

MAGIC = b"MCTS"
VERSION = 1
HEADER = struct.Struct("<4sB3xQI")  # magic, version, model hash, state bytes; then the checksum
HEADER_BYTES = HEADER.size + 4
RECIPE_MAGIC = b"MCTR"
RECIPE_VERSION = 1
RECIPE_HEADER = struct.Struct("<4sB3xI")  # magic, version, bytes of JSON; then JSON and checksum
INT16_END = 2**15 - 1
"""Where the difference of a bias saturates."""
DRIFT_STEPS = 4
"""Of the offset that corrects a policy, in one unit of its scores."""
COUNTERS = struct.Struct("<III")  # random state, updates done, samples of the current update


@dataclass(frozen=True)
class SavedState:
    """A sound saved state. raw: all of its bytes. recipe: how its step was made, as JSON, or ""."""

    raw: bytes
    model_hash: int
    updates: int
    samples: int
    recipe: str = ""

    def position(self, samples_per_update: int) -> int:
        """The number of samples it has learnt from."""
        return self.updates * samples_per_update + self.samples

    @staticmethod
    def parse(raw: bytes, where: str) -> SavedState:
        """Check bytes, with a recipe or without. where: for sentences. Raises StateFileError."""
        raw, behind = raw[: _saved_bytes(raw)], raw[_saved_bytes(raw) :]
        if len(raw) < HEADER_BYTES + COUNTERS.size or raw[:4] != MAGIC or raw[4] != VERSION:
            raise StateFileError(_no_state(where))
        _, _, model_hash, size = HEADER.unpack_from(raw)
        state = raw[HEADER_BYTES:]
        crc = zlib.crc32(state, zlib.crc32(raw[: HEADER.size]))
        if len(state) != size or crc != int.from_bytes(raw[HEADER.size : HEADER_BYTES], "little"):
            raise StateFileError(_damaged(where))
        _, updates, samples = COUNTERS.unpack_from(state)
        return SavedState(raw, model_hash, updates, samples, _recipe_of(behind, where))


@dataclass(frozen=True)
class StateFile:
    """A file with a saved state, of which only the ends are read.

    saved_bytes: of header and state, as the file says. recipe: how the step was made, or "".
    wrong: what makes it no state, as a sentence, or "".
    """

    path: Path
    model_hash: int
    saved_bytes: int
    recipe: str = ""
    wrong: str = ""

    @staticmethod
    def of(path: Path) -> StateFile:
        """Without its state. Raises StateFileError if it cannot be read, or its recipe is damaged.

        What is no state has no recipe; `read` says so.
        """
        try:
            with opened(path) as file:
                head, size = file.read(HEADER_BYTES), size_of(file)
                if len(head) < HEADER_BYTES or head[:4] != MAGIC or head[4] != VERSION:
                    return StateFile(path, 0, size, wrong=_no_state(path))
                _, _, model_hash, state_bytes = HEADER.unpack_from(head)
                saved_bytes = HEADER_BYTES + state_bytes
                behind_bytes = size - saved_bytes
                if behind_bytes < 0:
                    return StateFile(path, model_hash, size, wrong=_damaged(path))
                if behind_bytes > MOST_TEXT_BYTES:
                    raise StateFileError(f"{_damaged(path)}; {behind_bytes:,} bytes are behind it")
                file.seek(saved_bytes)
                recipe = _recipe_of(file.read(behind_bytes), str(path))
        except OSError as error:
            raise StateFileError(f"cannot read {path}: {reason(error)}") from error
        return StateFile(path, model_hash, saved_bytes, recipe)

    def read(self, saved_bytes: int) -> SavedState:
        """The state, which has so many bytes with its header. Raises StateFileError."""
        if self.wrong:
            raise StateFileError(self.wrong)
        if self.saved_bytes > saved_bytes:
            raise StateTooLongError(
                f"{self.path} says that its state has {self.saved_bytes:,} bytes, and that of this "
                f"model, trained so, has {saved_bytes:,}: give its own file"
            )
        try:
            with opened(self.path) as file:
                raw = file.read(self.saved_bytes)
        except OSError as error:
            raise StateFileError(f"cannot read {self.path}: {reason(error)}") from error
        return replace(SavedState.parse(raw, str(self.path)), recipe=self.recipe)


def _no_state(where: Path | str) -> str:
    return f"{where} is no trained state of this version of mcutrain"


def _damaged(where: Path | str) -> str:
    return f"{where} is damaged: its size or checksum is wrong"


def _saved_bytes(head: bytes) -> int:
    """Of header and state, as the header says; of what has none, all bytes."""
    if len(head) < HEADER_BYTES or head[:4] != MAGIC:
        return len(head)
    return HEADER_BYTES + int(HEADER.unpack_from(head)[3])


def recipe_text(recipe: Mapping[str, Any]) -> str:
    """As JSON, the same bytes whoever writes it: files of equal states are equal."""
    return json.dumps(recipe, sort_keys=True)


def with_recipe(raw: bytes, recipe: str) -> bytes:
    """A saved state with its recipe behind it; without one as it is."""
    if not recipe:
        return raw
    text = recipe.encode()
    behind = RECIPE_HEADER.pack(RECIPE_MAGIC, RECIPE_VERSION, len(text)) + text
    return raw + behind + zlib.crc32(behind).to_bytes(4, "little")


def _recipe_of(behind: bytes, where: str) -> str:
    """The JSON that follows a state, or "". Raises StateFileError."""
    if not behind:
        return ""
    known = len(behind) >= RECIPE_HEADER.size + 4 and behind[:4] == RECIPE_MAGIC
    if known and behind[4] != RECIPE_VERSION:
        raise StateFileError(
            f"{where} says how it was trained in format {behind[4]}, and this version of mcutrain "
            f"knows {RECIPE_VERSION}: take the version that wrote it"
        )
    if known:
        size = RECIPE_HEADER.unpack_from(behind)[2]
        text, crc = behind[RECIPE_HEADER.size : -4], int.from_bytes(behind[-4:], "little")
        if len(text) == size and zlib.crc32(behind[:-4]) == crc:
            return text.decode("utf-8", "replace")
    raise StateFileError(_damaged(where))


def saturated_biases(raw: bytes, tensors: Iterable[StateTensor]) -> int:
    """How many differences of biases, all that a state has in int16, stand at an end.

    raw: a sound saved state. tensors: what lies where in it.
    """
    found = 0
    for tensor in tensors:
        if tensor.dtype == "int16":
            numbers = struct.unpack_from(
                f"<{math.prod(tensor.shape)}h", raw, HEADER_BYTES + tensor.offset
            )
            found += sum(abs(number) >= INT16_END for number in numbers)
    return found


def skipped_samples(raw: bytes, gate_offset: int) -> int:
    """How many samples a gate has kept from being learnt. gate_offset: GateWords.offset."""
    (found,) = struct.unpack_from("<I", raw, HEADER_BYTES + gate_offset + 4)
    return int(found)


@dataclass(frozen=True)
class LevelWords:
    """Where a saved state says how many samples each of `count` fronts of a ladder took.

    offset: in the state. drifts: behind that it says what corrects their choice, which are a mean
    loss and an offset, in quarters of a policy's score.
    """

    offset: int
    count: int
    drifts: bool = False

    def samples(self, raw: bytes) -> tuple[int, ...]:
        """How many were trained by way of each front, the whole one first."""
        return struct.unpack_from(f"<{self.count}I", raw, HEADER_BYTES + self.offset)

    def drift(self, raw: bytes) -> float | None:
        """By how many units of a score each level is preferred to the one before; None: by none."""
        if not self.drifts:
            return None
        place = HEADER_BYTES + self.offset + 4 * self.count
        return float(struct.unpack_from("<ii", raw, place)[1]) / DRIFT_STEPS

    def facts(self, raw: bytes) -> dict[str, Any]:
        """Both, by the names that logs have for them."""
        drift = self.drift(raw)
        return {"levels": self.samples(raw), **({} if drift is None else {"drift": drift})}


def selected_tensors(raw: bytes, selection: ElasticSelection) -> tuple[str, ...]:
    """Of an elastic step: the tensors that are trained. raw: a sound saved state."""
    words = raw[HEADER_BYTES + selection.offset :]
    return tuple(name for i, name in enumerate(selection.tensors) if words[i // 8] >> i % 8 & 1)


def read(path: Path, model_hash: int, saved_bytes: int | None = None) -> SavedState:
    """The state in a file, of which nothing is read if its length cannot be.

    saved_bytes: of the model's state with its header; None: as the file says, if the model is this
    one. Raises StateFileError, ModelMismatchError.
    """
    file = StateFile.of(path)
    is_other = file.model_hash != model_hash and not file.wrong
    most = file.saved_bytes if saved_bytes is None else saved_bytes
    if is_other and (saved_bytes is None or file.saved_bytes > saved_bytes):
        raise _mismatch(path, file.model_hash, model_hash)
    saved = file.read(most)
    if is_other:
        raise _mismatch(path, saved.model_hash, model_hash)
    return saved


def _mismatch(path: Path, found: int, wanted: int) -> ModelMismatchError:
    return ModelMismatchError(str(path), found, wanted, "take the file of this project")


def write(path: Path, raw: bytes, recipe: str = "") -> None:
    """Write a state as a whole or not at all. recipe: of its step. Raises StateFileError."""
    try:
        write_whole(path, with_recipe(raw, recipe))
    except OSError as error:
        raise StateFileError(f"cannot write {path}: {unwritable(path, error)}") from error
