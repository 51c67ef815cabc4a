"""Pairwise masks: a server adds what gateways learnt, and sees no single one of them.

Each two gateways of a round agree on a stream of numbers (X25519, HKDF-SHA256, ChaCha20). One adds
it to its sum, the other subtracts it, modulo 2^32 or 2^64, so it is gone from the sum of all. This
is Bonawitz et al., 2017, without its recovery of gateways that drop out: then the round ends. It
protects from a server that is curious, not from one that hands out keys of its own.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass
from mcutrain_host.json_values import from_json, to_json

from mcutrain.errors import StateError
from mcutrain.fleets.contribution import EXPONENTS, MOST_WEIGHT, Contribution
from mcutrain.fleets.numbers import FleetLayout

Array = npt.NDArray[Any]
MAGIC = b"MCTM"
VERSION = 1
HEADER = struct.Struct("<4sB3xQI")
"""Magic, version, model hash, bytes of the JSON; then it, the masked words, and a CRC."""
KEY_BYTES = 32
MOST_MASKED_WEIGHT = 2**16
"""Of a round: then sums of most numbers fit in 32 bits."""


def new_key() -> tuple[bytes, bytes]:
    """A private key for a round, and the public one that others may see."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    key = X25519PrivateKey.generate()
    return key.private_bytes_raw(), key.public_key().public_bytes_raw()


@dataclass(frozen=True)
class MaskedSum:
    """What a gateway's boards learnt, masked. words: uint32 or uint64, by trained tensor.

    key: the gateway's public one. keys: of all gateways of the round, in order. The rest is open:
    names and weights of boards, as of a Contribution.
    """

    model_hash: int
    head: MaskedHead
    words: dict[str, Array]

    @staticmethod
    def of(
        layout: FleetLayout, one: Contribution, private: bytes, keys: Sequence[bytes]
    ) -> MaskedSum:
        """Mask a sum. private: the gateway's own key. keys: of all gateways of the round.

        Raises StateError where keys are wrong, or the weight is too large.
        """
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        if one.without:
            raise StateError("masked boards have one scheme: leave out those with another")
        if one.weight > MOST_MASKED_WEIGHT // max(len(keys), 1):
            raise StateError(
                f"the weight of {one.boards[0]!r} and its gateway's others is {one.weight:,}; of "
                f"{len(keys)} gateways with masks it is at most "
                f"{MOST_MASKED_WEIGHT // len(keys):,}: learn from fewer samples in a round"
            )
        key = X25519PrivateKey.from_private_bytes(private)
        own = key.public_key().public_bytes_raw()
        if own not in keys or len(set(keys)) < max(len(keys), 2):
            raise StateError("masks need two gateways or more, and this gateway's key among theirs")
        kinds = word_kinds(layout)
        words = {name: value.astype(kinds[name]) for name, value in one.sums.items()}
        for other in keys:
            if other == own:
                continue
            stream = _stream(key, own, other, one.base, sum(w.nbytes for w in words.values()))
            begin = 0
            for name, value in words.items():
                mask = np.frombuffer(stream, value.dtype, value.size, begin)
                words[name], begin = (
                    value + mask if own < other else value - mask,
                    begin + value.nbytes,
                )
        head = MaskedHead(
            base=one.base,
            boards=one.boards,
            weight=one.weight,
            updates=one.updates,
            output_exponent=one.output_exponent,
            key=own.hex(),
            keys=tuple(sorted(key.hex() for key in keys)),
        )
        return MaskedSum(one.model_hash, head, words)

    def to_bytes(self) -> bytes:
        """Return it as `parse` reads it."""
        text = to_json(self.head).encode()
        words = b"".join(value.tobytes() for value in self.words.values())
        whole = HEADER.pack(MAGIC, VERSION, self.model_hash, len(text)) + text + words
        return whole + zlib.crc32(whole).to_bytes(4, "little")

    @staticmethod
    def parse(layout: FleetLayout, raw: bytes, where: str) -> MaskedSum:
        """Check and read bytes. where: they are from, for sentences. Raises StateError."""
        damaged = StateError(f"{where} is no masked sum of this model and scheme, or is damaged")
        if len(raw) < HEADER.size + 4 or raw[:5] != MAGIC + bytes([VERSION]):
            raise damaged
        _, _, model_hash, text_bytes = HEADER.unpack_from(raw)
        begin, kinds = HEADER.size + text_bytes, word_kinds(layout)
        size = sum(kinds[name].itemsize * count for name, count in layout.sizes.items())
        if len(raw) != begin + size + 4 or zlib.crc32(raw[:-4]).to_bytes(4, "little") != raw[-4:]:
            raise damaged
        try:
            head = from_json(MaskedHead, raw[HEADER.size : begin].decode(), where)
        except ValueError as error:
            raise damaged from error
        words = {}
        for name, count in layout.sizes.items():
            words[name] = np.frombuffer(raw, kinds[name], count, begin)
            begin += words[name].nbytes
        return MaskedSum(model_hash, head, words)


@dataclass(frozen=True)
class MaskedHead:
    """The JSON of a masked sum. Keys are in hex."""

    base: str
    boards: tuple[str, ...]
    weight: int
    updates: int
    output_exponent: int
    key: str
    keys: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raise ValueError where a file cannot say so."""
        if not 1 <= self.weight <= MOST_MASKED_WEIGHT:
            raise ValueError("no such weight")
        if not 0 <= self.updates < 2**32 or not 0 <= self.output_exponent < EXPONENTS:
            raise ValueError("no such counter or exponent")
        if not self.boards or list(self.boards) != sorted(set(self.boards)):
            raise ValueError("no boards, or one twice")


def unmasked(layout: FleetLayout, parts: Sequence[MaskedSum]) -> Contribution:
    """The sum of all gateways of a round, as if it had no masks.

    Raises StateError where one of them is missing: then nobody can take its masks away.
    """
    if not parts:
        raise StateError("no gateway sent a masked sum")
    first = parts[0]
    for part in parts:
        same = (part.model_hash, part.head.base, part.head.keys)
        if same != (first.model_hash, first.head.base, first.head.keys):
            raise StateError("masked sums are of other rounds, models, schemes or gateways")
    there = sorted(part.head.key for part in parts)
    if there != list(first.head.keys):
        missing = len(set(first.head.keys) - set(there))
        raise StateError(
            f"{missing} of {len(first.head.keys)} gateways with masks are missing, or one is there "
            "twice: without each of them the sum stays masked, and the round ends"
        )
    names = [name for part in parts for name in part.head.boards]
    if len(set(names)) < len(names):
        raise StateError("two gateways have a board of the same name: the round ends")
    weight, sums = sum(part.head.weight for part in parts), {}
    for name, kind in word_kinds(layout).items():
        total = np.zeros(layout.sizes[name], kind)
        for part in parts:
            total = total + part.words[name]
        sums[name] = total.view(f"<i{kind.itemsize}").astype(np.int64)
        if sums[name].size and int(np.abs(sums[name]).max()) > weight * 2**31:
            raise StateError("masked sums do not fit each other: a gateway sent other bytes")
    assert weight <= MOST_WEIGHT, "masked weights are smaller"
    return Contribution(
        model_hash=first.model_hash,
        base=first.head.base,
        boards=tuple(sorted(names)),
        weight=weight,
        updates=max(part.head.updates for part in parts),
        output_exponent=max(part.head.output_exponent for part in parts),
        sums=sums,
    )


def word_kinds(layout: FleetLayout) -> dict[str, np.dtype[Any]]:
    """Words of a round's sums, by trained tensor: 32 bits where they hold any, else 64."""
    return {
        one.name: np.dtype("<u4" if (one.high - one.low) * MOST_MASKED_WEIGHT < 2**31 else "<u8")
        for one in layout.numbers
    }


def _stream(private: Any, own: bytes, other: bytes, base: str, count: int) -> bytes:
    """Bytes that two gateways share in a round. base: of the round, in hex."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    try:
        secret = private.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError as error:
        raise StateError("a gateway's key is none") from error
    pair = b"".join(sorted((own, other)))
    derived = HKDF(SHA256(), 32, base.encode(), b"mcutrain fleet mask 1" + pair).derive(secret)
    cipher = Cipher(algorithms.ChaCha20(derived, bytes(16)), mode=None).encryptor()
    return bytes(cipher.update(bytes(count)))
