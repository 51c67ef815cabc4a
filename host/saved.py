"""A trained state in a file: header, checksum and state, as mct_state_save writes them."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcutrain_host.errors import ModelMismatchError, StateFileError
from mcutrain_host.files import unwritable, write_whole

if TYPE_CHECKING:
    from mcutrain_host.manifest import ElasticSelection, StateTensor

MAGIC = b"MCTS"
VERSION = 1
HEADER = struct.Struct("<4sB3xQI")  # magic, version, model hash, state bytes; then the checksum
HEADER_BYTES = HEADER.size + 4
INT16_END = 2**15 - 1
"""Where the difference of a bias saturates."""
DRIFT_STEPS = 4
"""Of the offset that corrects a policy, in one unit of its scores."""
COUNTERS = struct.Struct("<III")  # random state, updates done, samples of the current update


@dataclass(frozen=True)
class SavedState:
    """A sound saved state. raw: all of its bytes."""

    raw: bytes
    model_hash: int
    updates: int
    samples: int

    def position(self, samples_per_update: int) -> int:
        """The number of samples it has learnt from."""
        return self.updates * samples_per_update + self.samples

    @staticmethod
    def parse(raw: bytes, where: str) -> SavedState:
        """Check the bytes. where: for sentences. Raises StateFileError."""
        if len(raw) < HEADER_BYTES + COUNTERS.size or raw[:4] != MAGIC or raw[4] != VERSION:
            raise StateFileError(f"{where} is no trained state of this version of mcutrain")
        _, _, model_hash, size = HEADER.unpack_from(raw)
        state = raw[HEADER_BYTES:]
        crc = zlib.crc32(state, zlib.crc32(raw[: HEADER.size]))
        if len(state) != size or crc != int.from_bytes(raw[HEADER.size : HEADER_BYTES], "little"):
            raise StateFileError(f"{where} is damaged: its size or checksum is wrong")
        _, updates, samples = COUNTERS.unpack_from(state)
        return SavedState(raw, model_hash, updates, samples)


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


def read(path: Path, model_hash: int) -> SavedState:
    """The state in a file. Raises StateFileError, ModelMismatchError."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise StateFileError(f"cannot read {path}: {error.strerror}") from error
    saved = SavedState.parse(raw, str(path))
    if saved.model_hash != model_hash:
        raise ModelMismatchError(
            str(path), saved.model_hash, model_hash, "take the file of this project"
        )
    return saved


def write(path: Path, raw: bytes) -> None:
    """Write a state as a whole or not at all. Raises StateFileError."""
    try:
        write_whole(path, raw)
    except OSError as error:
        raise StateFileError(f"cannot write {path}: {unwritable(path, error)}") from error
