"""What boards learnt in a round, as sums of differences to its base, and as a file."""

from __future__ import annotations

import lzma
import struct
import zlib
from collections.abc import Mapping
from dataclasses import field, replace
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass
from mcutrain_host.json_values import from_json, to_json
from mcutrain_host.saved import SavedState

from mcutrain.errors import ArgumentError, StateError
from mcutrain.fleets.numbers import FleetLayout

Array = npt.NDArray[Any]

MAGIC = b"MCTD"
VERSION = 1
HEADER = struct.Struct("<4sB3xQII")
"""Magic, version, model hash, bytes of the JSON, bytes of the packed sums; then both, and a CRC."""
MOST_WEIGHT = 2**30
"""Of all boards together. A difference has 32 bits at most, so a sum stays within int64."""
MOST_NUMBERS = 2**26
"""Trained numbers that a file may say it has; more would not fit a board."""
MOST_BYTES = 2**28
"""Of a file that is read at all."""
WIDTHS = (1, 2, 4, 8)
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": 0, "pb": 0, "dict_size": 2**20}]
"""Differences are not text: no bits of the byte before, none of the position."""
LONGEST_NAME = 200
EXPONENTS = 32
"""Powers of two that the outputs' scale may grow by are less."""


@dataclass(frozen=True)
class Contribution:
    """The sum of what boards learnt since a base, each times its weight.

    model_hash: of the step. base: SHA-256 of the saved state that the round began with, in hex.
    boards: their names, in alphabetical order. weight: of all of them, usually their samples.
    updates: the most that one of them did. output_exponent: the largest of one of them. sums:
    int64, flat, by name of the trained tensor. without: the weight of the boards whose scheme does
    not train a tensor, by its name. All of it is the same in whatever order boards are added.
    """

    model_hash: int
    base: str
    boards: tuple[str, ...]
    weight: int
    updates: int
    output_exponent: int
    sums: Mapping[str, Array]
    without: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(
        layout: FleetLayout, base: SavedState, state: SavedState, board: str, weight: int
    ) -> Contribution:
        """Return what one board learnt. weight: above 0. Both states are of this step."""
        if not 0 < weight <= MOST_WEIGHT:
            raise ArgumentError(f"the weight of {board!r} is {weight:,}, not 1 … {MOST_WEIGHT:,}")
        if not isinstance(board, str) or not 0 < len(board) <= LONGEST_NAME or not _is_text(board):
            raise ArgumentError(
                f"a board's name is a text of 1 … {LONGEST_NAME} characters: {str(board)[:40]!a}"
            )
        exponent = layout.output_exponent(state)
        if not 0 <= exponent < EXPONENTS:
            raise StateError(
                f"the state of {board!r} is damaged: its outputs' exponent is {exponent}"
            )
        before, after = layout.read(base), layout.read(state)
        return Contribution(
            model_hash=base.model_hash,
            base=sha256(base.raw).hexdigest(),
            boards=(board,),
            weight=weight,
            updates=(state.updates - base.updates) % 2**32,
            output_exponent=exponent,
            sums={name: (after[name] - before[name]) * weight for name in before},
        )

    def __add__(self, other: Contribution) -> Contribution:
        """The contributions of both. Raises StateError where they are not of one round."""
        if self.model_hash != other.model_hash or list(self.sums) != list(other.sums):
            raise StateError(f"{_named(self)} and {_named(other)} trained other models or schemes")
        if self.base != other.base:
            raise StateError(
                f"{_named(self)} began with the base {self.base[:12]}…, {_named(other)} with "
                f"{other.base[:12]}…: only contributions of one round can be added"
            )
        twice = sorted(set(self.boards) & set(other.boards))
        if twice:
            raise StateError(f"the contribution of {twice[0]!r} is there twice: leave one out")
        weight = self.weight + other.weight
        if weight > MOST_WEIGHT:
            raise StateError(
                f"the weights of {len(self.boards) + len(other.boards):,} boards add up to "
                f"{weight:,}, more than {MOST_WEIGHT:,}: divide all of them by the same number"
            )
        return Contribution(
            model_hash=self.model_hash,
            base=self.base,
            boards=tuple(sorted(self.boards + other.boards)),
            weight=weight,
            updates=max(self.updates, other.updates),
            output_exponent=max(self.output_exponent, other.output_exponent),
            sums={name: value + other.sums[name] for name, value in self.sums.items()},
            without={
                name: self.without.get(name, 0) + other.without.get(name, 0)
                for name in self.sums
                if name in self.without or name in other.without
            },
        )

    def weight_of(self, name: str) -> int:
        """That of the boards which train a tensor; at least 1, for sums of none, which are 0."""
        return max(self.weight - self.without.get(name, 0), 1)

    def late(self, rounds: int, base: str, factor: int) -> Contribution:
        """Return it as one of a later round, where all that is on time was multiplied by a factor.

        rounds: that it is late, 0 for none; its weight is halved with each. base: of the later
        round. factor: a multiple of 2 ** rounds, so that halves are whole. Raises StateError.
        """
        times = factor >> rounds
        if self.weight * times > MOST_WEIGHT:
            raise StateError(
                f"with late boards, the weight of {_named(self)} is {self.weight * times:,}, more "
                f"than {MOST_WEIGHT:,}: divide all weights by the same number"
            )
        behind = f" ({rounds} late)" if rounds else ""
        return replace(
            self,
            base=base,
            boards=tuple(sorted(name + behind for name in self.boards)),
            weight=self.weight * times,
            sums={name: value * times for name, value in self.sums.items()},
            without={name: weight * times for name, weight in self.without.items()},
        )

    @property
    def differences(self) -> dict[str, Array]:
        """What a single board learnt, without its weight."""
        assert len(self.boards) == 1, "differences of boards are not known from their sum"
        return {name: value // self.weight for name, value in self.sums.items()}

    @property
    def moved(self) -> float:
        """The root of the mean square of what the boards moved their numbers by, in the mean."""
        trained = {n: v for n, v in self.sums.items() if self.without.get(n, 0) < self.weight}
        squares = sum(float(np.square(v / self.weight_of(n)).sum()) for n, v in trained.items())
        return float(np.sqrt(squares / max(sum(value.size for value in trained.values()), 1)))

    def to_bytes(self) -> bytes:
        """Return it as `parse` reads it: a header, JSON, packed sums, a checksum."""
        factor = self.weight if len(self.boards) == 1 else 1
        stored = {name: value // factor for name, value in self.sums.items()}
        widths = {name: _width(value) for name, value in stored.items()}
        raw = b"".join(
            value.astype(f"<i{widths[name]}").view(np.uint8).reshape(-1, widths[name]).T.tobytes()
            for name, value in stored.items()
        )
        packed = lzma.compress(raw, lzma.FORMAT_RAW, filters=FILTERS)
        head = ContributionHead(
            base=self.base,
            boards=self.boards,
            factor=factor,
            weight=self.weight,
            updates=self.updates,
            output_exponent=self.output_exponent,
            tensors=tuple(
                PackedTensor(n, value.size, widths[n], self.without.get(n, 0))
                for n, value in stored.items()
            ),
        )
        text = to_json(head).encode()
        whole = HEADER.pack(MAGIC, VERSION, self.model_hash, len(text), len(packed)) + text + packed
        return whole + zlib.crc32(whole).to_bytes(4, "little")

    @staticmethod
    def parse(raw: bytes, where: str) -> Contribution:
        """Check and read bytes. where: they are from, for sentences. Raises StateError."""
        damaged = StateError(f"{where} is no contribution to a fleet, or is damaged")
        if len(raw) < HEADER.size + 4 or raw[:4] != MAGIC:
            raise damaged
        if raw[4] != VERSION:
            raise StateError(f"{where} is of version {raw[4]}; this mcutrain reads {VERSION}")
        _, _, model_hash, text_bytes, packed_bytes = HEADER.unpack_from(raw)
        end = HEADER.size + text_bytes
        if (
            len(raw) != end + packed_bytes + 4
            or zlib.crc32(raw[:-4]).to_bytes(4, "little") != raw[-4:]
        ):
            raise damaged
        try:
            said = from_json(ContributionHead, raw[HEADER.size : end].decode(), where)
            sums = said.unpacked(raw[end:-4])
        except (ValueError, lzma.LZMAError) as error:
            raise damaged from error
        return Contribution(
            model_hash,
            said.base,
            said.boards,
            said.weight,
            said.updates,
            said.output_exponent,
            sums,
            {tensor.name: tensor.without for tensor in said.tensors if tensor.without},
        )


@dataclass(frozen=True)
class PackedTensor:
    """The sums of a trained tensor in a file. width: bytes of each of count numbers.

    without: the weight of boards that do not train it.
    """

    name: str
    count: int
    width: int
    without: int = 0

    def __post_init__(self) -> None:
        if self.width not in WIDTHS or not 0 <= self.count <= MOST_NUMBERS:
            raise ValueError(f"{self.count} numbers of {self.width} bytes")


@dataclass(frozen=True)
class ContributionHead:
    """The JSON of a contribution's file. factor: what the stored sums are multiplied by."""

    base: str
    boards: tuple[str, ...]
    factor: int
    weight: int
    updates: int
    output_exponent: int
    tensors: tuple[PackedTensor, ...]

    def __post_init__(self) -> None:
        """Raise ValueError where a file cannot say so."""
        if not 1 <= self.weight <= MOST_WEIGHT:
            raise ValueError("no such weight")
        if not 0 <= self.updates < 2**32 or not 0 <= self.output_exponent < EXPONENTS:
            raise ValueError("no such counter or exponent")
        if len({tensor.name for tensor in self.tensors}) < len(self.tensors):
            raise ValueError("a tensor is there twice")
        if not self.boards or list(self.boards) != sorted(set(self.boards)):
            raise ValueError("no boards, or one twice")
        if self.factor != (self.weight if len(self.boards) == 1 else 1):
            raise ValueError("no such factor")
        if any(not 0 <= tensor.without <= self.weight for tensor in self.tensors):
            raise ValueError("no such weight of a tensor")
        if sum(tensor.count for tensor in self.tensors) > MOST_NUMBERS:
            raise ValueError("more numbers than a board has")

    def unpacked(self, packed: bytes) -> dict[str, Array]:
        """The sums. Raises ValueError or LZMAError; never makes more bytes than the JSON says."""
        size = sum(tensor.count * tensor.width for tensor in self.tensors)
        reader = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=FILTERS)
        raw = reader.decompress(packed, size) if size else b""
        if len(raw) != size:
            raise ValueError("other bytes than said")
        sums, begin, most = {}, 0, self.weight * 2**31
        for tensor in self.tensors:
            count, width = tensor.count, tensor.width
            planes = np.frombuffer(raw, np.uint8, count * width, begin).reshape(width, count)
            stored = np.ascontiguousarray(planes.T).view(f"<i{width}").ravel().astype(np.int64)
            if stored.size and max(-int(stored.min()), int(stored.max())) * self.factor > most:
                raise ValueError("no difference of so many boards is as large")
            sums[tensor.name], begin = stored * self.factor, begin + count * width
        return sums


def _width(value: Array) -> int:
    """Return how many bytes the largest number takes."""
    if not value.size:
        return 1
    low, high = int(value.min()), int(value.max())
    return next(w for w in WIDTHS if -(2 ** (8 * w - 1)) <= low and high < 2 ** (8 * w - 1))


def _is_text(name: str) -> bool:
    """Return whether a file can hold a name; what a shell gave may be no UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _named(one: Contribution) -> str:
    more = f" and {len(one.boards) - 1:,} more" if len(one.boards) > 1 else ""
    return f"{one.boards[0]!r}{more}"
