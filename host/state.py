"""A trained state as a table: what lies where, of which type, and what it is for.

mcutrain.memplan.state makes the table, and the manifest of a project has it. Whoever reads a state
asks the table where things are.
"""

from __future__ import annotations

import math
import struct

from mcutrain_host.dataclass import dataclass

FORMATS = {"int8": "b", "exponent": "b", "uint8": "B", "int16": "h", "uint32": "I", "int32": "i"}
"""How struct reads the numbers of a section, by their type."""
COUNTERS = "counters"
LEVEL_SAMPLES = "level_samples"
SELECTED_TENSORS = "selected_tensors"
GATE_MEAN = "gate_mean"
GATE_SKIPPED = "gate_skipped"
"""Kinds of sections that others than their feature ask for by name."""


@dataclass(frozen=True, kw_only=True)
class StateSection:
    """A part of a state.

    name: of the tensor, or of the kind where a state has one section of it. offset: of the first
    byte, behind the header of a saved state. dtype: of its numbers; an exponent is an int8. kind:
    what it holds, in a word, and purpose: what it is for, in a line. Manifests of earlier versions
    say neither.
    """

    name: str
    offset: int
    dtype: str
    shape: tuple[int, ...]
    kind: str = ""
    purpose: str = ""

    def __post_init__(self) -> None:
        if self.dtype not in FORMATS:
            raise ValueError(f"dtype = {self.dtype!r} is none of {', '.join(FORMATS)}")
        if self.offset < 0 or min(self.shape, default=0) < 0:
            raise ValueError(f"offset = {self.offset} or shape = {list(self.shape)} is below 0")

    @property
    def count(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Size of all its numbers, in bytes."""
        return struct.calcsize(self._format)

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.size_bytes

    def read(self, state: bytes | bytearray) -> tuple[int, ...]:
        """Its numbers. state: without the header of a saved state."""
        return struct.unpack_from(self._format, state, self.offset)

    @property
    def _format(self) -> str:
        return f"<{self.count}{FORMATS[self.dtype]}"


@dataclass(frozen=True)
class StateTable:
    """All sections of a state, in the order of their bytes."""

    sections: tuple[StateSection, ...] = ()

    def of_kind(self, kind: str) -> tuple[StateSection, ...]:
        """The sections of a kind; none where the step does not have it."""
        return tuple(section for section in self.sections if section.kind == kind)

    def numbers(self, state: bytes | bytearray, kind: str) -> tuple[int, ...]:
        """Return what all sections of a kind hold; none where the step does not have it.

        state: without the header of a saved state.
        """
        return tuple(number for section in self.of_kind(kind) for number in section.read(state))
