"""A trained state in a file: header, checksum and state, as mct_state_save writes them.

Behind them a file says how the step was made from the model, its recipe, as JSON; mct_state_load
takes the bytes before. Files of earlier versions end there.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import ModelMismatchError, StateFileError, StateTooLongError
from mcutrain_host.files import unwritable, write_whole
from mcutrain_host.reading import CHUNK_BYTES, MOST_TEXT_BYTES, opened, size_of
from mcutrain_host.state import SELECTED_TENSORS, StateTable
from mcutrain_host.text import reason

MAGIC = b"MCTS"
VERSION = 1
HEADER = struct.Struct("<4sB3xQI")  # magic, version, model hash, state bytes; then the checksum
HEADER_BYTES = HEADER.size + 4
RECIPE_MAGIC = b"MCTR"
RECIPE_VERSION = 1
RECIPE_HEADER = struct.Struct("<4sB3xI")  # magic, version, bytes of JSON; then JSON and checksum
INT16_END = 2**15 - 1
"""Where the difference of a bias saturates."""
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
                if head[:5] != MAGIC + bytes([VERSION]):
                    return StateFile(path, 0, size, wrong=_no_state(path))
                if len(head) < HEADER_BYTES:
                    return StateFile(path, 0, size, wrong=_damaged(path))
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

    def check(self) -> None:
        """Raise StateFileError if the state is damaged; of whatever model, it is read in parts."""
        if self.wrong:
            raise StateFileError(self.wrong)
        try:
            with opened(self.path) as file:
                found, left = zlib.crc32(file.read(HEADER.size)), self.saved_bytes - HEADER_BYTES
                kept = int.from_bytes(file.read(HEADER_BYTES - HEADER.size), "little")
                while left > 0 and (part := file.read(min(left, CHUNK_BYTES))):
                    found, left = zlib.crc32(part, found), left - len(part)
        except OSError as error:
            raise StateFileError(f"cannot read {self.path}: {reason(error)}") from error
        if found != kept or left:
            raise StateFileError(_damaged(self.path))

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


def with_checksum(header: bytes, state: bytes) -> bytes:
    """Return a saved state without a recipe. header: HEADER, packed; state: what lies behind."""
    return header + zlib.crc32(state, zlib.crc32(header)).to_bytes(4, "little") + state


def _no_state(where: Path | str) -> str:
    return f"{where} is no trained state of this version of mcutrain"


def _damaged(where: Path | str) -> str:
    return f"{where} is damaged: its size or checksum is wrong"


def _saved_bytes(head: bytes) -> int:
    """Length of header and state, as the header says; without a header, all bytes."""
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


def numbers(raw: bytes, table: StateTable, kind: str) -> tuple[int, ...]:
    """What a sound saved state holds of a kind of section; none where it does not have it."""
    return table.numbers(raw[HEADER_BYTES:], kind)


def saturated_biases(raw: bytes, table: StateTable) -> int:
    """Return how many differences of biases, all that a state has in int16, stand at an end.

    raw: a sound saved state.
    """
    state, found = raw[HEADER_BYTES:], 0
    for section in table.sections:
        if section.dtype == "int16":
            found += sum(abs(number) >= INT16_END for number in section.read(state))
    return found


def selected_tensors(raw: bytes, table: StateTable, names: Sequence[str]) -> tuple[str, ...]:
    """Tensors that an elastic step trains. names: all tensors that it can leave out."""
    words = numbers(raw, table, SELECTED_TENSORS)
    return tuple(name for i, name in enumerate(names) if words[i // 32] >> i % 32 & 1)


def read(
    path: Path,
    model_hash: int,
    saved_bytes: int | None = None,
    advice: str = "take the file of this project",
) -> SavedState:
    """The state in a file, of which nothing is read if its length cannot be.

    saved_bytes: of the model's state with its header; None: as the file says, if the model is this
    one. advice: what to do where it is of another. Raises StateFileError, ModelMismatchError.
    """
    file = StateFile.of(path)
    is_other = file.model_hash != model_hash and not file.wrong
    most = file.saved_bytes if saved_bytes is None else saved_bytes
    if is_other and (saved_bytes is None or file.saved_bytes > saved_bytes):
        raise ModelMismatchError(str(path), file.model_hash, model_hash, advice)
    saved = file.read(most)
    if is_other:
        raise ModelMismatchError(str(path), saved.model_hash, model_hash, advice)
    return saved


def write(path: Path, raw: bytes, recipe: str = "") -> None:
    """Write a state as a whole or not at all. recipe: of its step. Raises StateFileError."""
    try:
        write_whole(path, with_recipe(raw, recipe))
    except OSError as error:
        raise StateFileError(f"cannot write {path}: {unwritable(path, error)}") from error
