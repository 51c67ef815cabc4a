"""Where everything lies in the trained state: a table, from which every reader takes offsets.

The counters come first, then the tensors of the training graph, then the words that features of a
step keep. Behind them a saved state has the backing store: weights whose trained input channels
change, which take no SRAM. A new section is a row of a feature's words (mcutrain.features), or for
a tensor a row of mcutrain.autodiff.state_kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass
from mcutrain_host.state import COUNTERS, StateSection, StateTable

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.features import FEATURES, Words
from mcutrain.memplan.plan import align_up

Array = npt.NDArray[Any]

BACKING = "shelf"
ALIGN_BYTES = 4
"""Alignment of the words, and of each tensor in the backing store."""


HEAD = Words(
    COUNTERS,
    "uint32",
    lambda training: 3,
    "state of the random numbers, updates done, samples of the current update",
)
"""What every state begins with, so that it can be read without a table."""
WORDS = tuple(row for feature in FEATURES for row in feature.words)
"""In the order in which they lie. C reads neighbours of one feature as a struct."""


@dataclass(frozen=True)
class StateLayout:
    """A place for everything that a step keeps.

    words: the counters, and what features keep. state_bytes: in SRAM. kept_bytes: of a saved state,
    without its header; the backing store lies behind state_bytes.
    """

    words: tuple[StateSection, ...]
    tensors: tuple[StateSection, ...]
    backing: tuple[StateSection, ...]
    state_bytes: int
    kept_bytes: int

    @cached_property
    def table(self) -> StateTable:
        """All sections, in the order of their bytes."""
        sections = (*self.words, *self.tensors, *self.backing)
        return StateTable(tuple(sorted(sections, key=lambda section: section.offset)))

    def offset_of(self, kind: str) -> int | None:
        """The first byte of a feature's words; None where the step has not that feature."""
        return next((word.offset for word in self.words if word.kind == kind), None)

    def unpack(self, state: bytes | bytearray) -> dict[str, Array]:
        """Tensors by name, and those in the backing store. state: without the header."""
        return {s.name: array_of(s, state) for s in (*self.tensors, *self.backing)}

    def unpack_words(self, state: bytes | bytearray) -> dict[str, Array]:
        """Counters and what features keep, by kind. state: without header and backing store."""
        return {word.kind: array_of(word, state) for word in self.words}

    def pack(self, words: Mapping[str, Array], tensors: Mapping[str, Array]) -> bytearray:
        """A state without header. words: by kind. tensors: by name, with the backing store's."""
        state = bytearray(self.kept_bytes)
        for word in self.words:
            _put(state, word, words[word.kind])
        for section in (*self.tensors, *self.backing):
            _put(state, section, tensors[section.name])
        return state


def state_layout(training: TrainGraph) -> StateLayout:
    """Counters, tensors without gaps, the widest first, words, and the backing store."""
    head = _word(HEAD, training, 0)
    wide_first = sorted(training.state.items(), key=lambda e: -np.asarray(e[1]).itemsize)
    tensors: list[StateSection] = []
    position = head.end
    for name, value in wide_first:
        kind = training.kinds[name]
        tensors.append(_tensor(training, name, value, position, (kind.name, kind.purpose)))
        position = tensors[-1].end
    kept_words, position = [head], align_up(position, ALIGN_BYTES)
    for row in WORDS:
        if row.count(training):
            kept_words.append(_word(row, training, position))
            position = kept_words[-1].end
    state_bytes = position
    backing: list[StateSection] = []
    for name, value in training.backing.items():
        purpose = (BACKING, "all input channels of a weight of which some are trained now")
        backing.append(_tensor(training, name, value, position, purpose))
        position = align_up(backing[-1].end, ALIGN_BYTES)
    return StateLayout(tuple(kept_words), tuple(tensors), tuple(backing), state_bytes, position)


def first_words(training: TrainGraph) -> dict[str, Array]:
    """Counters and what features keep before anything was learnt: zeros, by kind."""
    rows = ((row, row.count(training)) for row in (HEAD, *WORDS))
    return {row.kind: np.zeros(count, row.dtype) for row, count in rows if count}


def array_of(section: StateSection, state: bytes | bytearray) -> Array:
    """Return what a section holds. state: without the header."""
    flat = np.frombuffer(state, _dtype(section), section.count, section.offset)
    return flat.reshape(section.shape).copy()


def bytes_by_kind(sections: Iterable[StateSection]) -> dict[str, int]:
    """Return how much of a state each kind takes, in the order in which kinds appear."""
    found: dict[str, int] = {}
    for section in sections:
        found[section.kind] = found.get(section.kind, 0) + section.size_bytes
    return found


def _put(state: bytearray, section: StateSection, value: Array) -> None:
    raw = np.asarray(value, _dtype(section)).tobytes()
    assert len(raw) == section.size_bytes, f"{section.name} has other numbers than its section"
    state[section.offset : section.end] = raw


def _dtype(section: StateSection) -> np.dtype[Any]:
    return np.dtype("int8" if section.dtype == "exponent" else section.dtype).newbyteorder("<")


def _word(row: Words, training: TrainGraph, offset: int) -> StateSection:
    return StateSection(
        name=row.kind,
        offset=offset,
        dtype=row.dtype,
        shape=(row.count(training),),
        kind=row.kind,
        purpose=row.purpose,
    )


def _tensor(
    training: TrainGraph, name: str, value: Array, offset: int, what: tuple[str, str]
) -> StateSection:
    """what: its kind, and what it is for."""
    array, tensors = np.asarray(value), training.graph.tensors
    dtype = tensors[name].type.dtype if name in tensors else str(array.dtype)
    return StateSection(
        name=name, offset=offset, dtype=dtype, shape=array.shape, kind=what[0], purpose=what[1]
    )
