"""Masked sums: as many gateways as there were, and the plain sum; one less, and nothing."""

from __future__ import annotations

import zlib
from contextlib import nullcontext
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs the extra fleet")

from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.errors import StateError
from mcutrain.fleets import Contribution
from mcutrain.fleets.masks import MOST_MASKED_WEIGHT, MaskedSum, new_key, unmasked, word_kinds
from tests.fleets.fleet import fleet
from tests.fleets.test_average import total_of

KEYS = tuple(new_key() for _ in range(5))


def masked(count: int, parts: list[Contribution] | None = None) -> list[MaskedSum]:
    keys = [public for _, public in KEYS[:count]]
    ours = parts or fleet().contributions()[:count]
    return [
        MaskedSum.of(fleet().layout, one, KEYS[i][0], keys[i:] + keys[:i])
        for i, one in enumerate(ours)
    ]


@settings(max_examples=8)
@given(st.integers(2, 5), st.randoms())
def test_the_sum_of_masked_sums_is_the_plain_sum(count: int, order: object) -> None:
    parts = [MaskedSum.parse(fleet().layout, one.to_bytes(), "a sum") for one in masked(count)]
    order.shuffle(parts)  # type: ignore[attr-defined]
    plain = total_of(fleet().contributions()[:count])
    assert unmasked(fleet().layout, parts).to_bytes() == plain.to_bytes()


def test_the_largest_sums_of_a_round_are_exact() -> None:
    ours = fleet()
    spans = {one.name: one.high - one.low for one in ours.layout.numbers}
    weight = MOST_MASKED_WEIGHT // 2
    for sign in (1, -1):
        far = [
            replace(
                one,
                weight=weight,
                sums={n: np.full_like(v, sign * weight * spans[n]) for n, v in one.sums.items()},
            )
            for one in ours.contributions()[:2]
        ]
        found = unmasked(ours.layout, masked(2, far))
        assert found.to_bytes() == total_of(far).to_bytes()
    kinds = word_kinds(ours.layout)
    assert {kind.itemsize for kind in kinds.values()} == {4, 8}
    heavy = replace(far[0], weight=weight + 1)
    with pytest.raises(StateError, match="fewer samples"):
        masked(2, [heavy, far[1]])


def test_a_masked_sum_looks_like_noise() -> None:
    """Each byte of it is as often there as any other, and two rounds have no mask in common."""
    one, plain = masked(2)[0], fleet().contributions()[0]
    raw = b"".join(value.tobytes() for value in one.words.values())
    counts = np.bincount(np.frombuffer(raw, np.uint8), minlength=256)
    expected = len(raw) / 256
    assert ((counts - expected) ** 2 / expected).sum() < 400  # 255 degrees of freedom
    other = masked(2, [replace(p, base="cd" * 32) for p in fleet().contributions()[:2]])[0]
    pairs = masked(3)[0]
    for name, value in plain.sums.items():
        kind = one.words[name].dtype
        masks = [w.words[name] - value.astype(kind) for w in (one, other, pairs)]
        assert not np.array_equal(masks[0], masks[1])
        assert not np.array_equal(masks[0], masks[2])


def test_a_gateway_that_drops_out_ends_the_round() -> None:
    parts = masked(4)
    with pytest.raises(StateError, match="1 of 4 gateways with masks are missing"):
        unmasked(fleet().layout, parts[:3])
    with pytest.raises(StateError, match="missing, or one is there twice"):
        unmasked(fleet().layout, [*parts, parts[0]])
    with pytest.raises(StateError, match="no gateway"):
        unmasked(fleet().layout, [])


def test_masked_sums_of_other_rounds_or_gateways_are_refused() -> None:
    first, second = masked(2)
    for wrong in (
        replace(second, model_hash=1),
        replace(second, head=replace(second.head, base="ab" * 32)),
        masked(3)[1],
    ):
        with pytest.raises(StateError, match="other rounds"):
            unmasked(fleet().layout, [first, wrong])
    twin = replace(second, head=replace(second.head, boards=first.head.boards))
    with pytest.raises(StateError, match="same name"):
        unmasked(fleet().layout, [first, twin])


def test_a_gateway_that_lies_about_its_masks_is_noticed() -> None:
    first, second = masked(2)
    lied = {
        name: value + value.dtype.type(2**60 % 2**32 or 1) for name, value in second.words.items()
    }
    wide = next(n for n, k in word_kinds(fleet().layout).items() if k.itemsize == 8)
    lied[wide] = second.words[wide] + np.uint64(2**62)
    with pytest.raises(StateError, match="do not fit"):
        unmasked(fleet().layout, [first, replace(second, words=lied)])


def test_keys_that_are_none_get_a_sentence() -> None:
    one, (private, own) = fleet().contributions()[0], KEYS[0]
    for keys in ([own], [own, own], [KEYS[1][1], KEYS[2][1]], []):
        with pytest.raises(StateError, match="masks need two gateways"):
            MaskedSum.of(fleet().layout, one, private, keys)
    for wrong in (bytes(32), b"short"):
        with pytest.raises(StateError, match="key is none"):
            MaskedSum.of(fleet().layout, one, private, [own, wrong])


@given(st.data())
@settings(max_examples=30)
def test_other_bytes_get_a_sentence(data: st.DataObject) -> None:
    raw = bytearray(masked_bytes())
    raw[data.draw(st.integers(0, min(len(raw), 900) - 1))] ^= data.draw(st.integers(1, 255))
    if data.draw(st.booleans()):  # as someone who forges one would
        raw[-4:] = zlib.crc32(raw[:-4]).to_bytes(4, "little")
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, len(raw)))]
    with pytest.raises(StateError, match=r"forged") if not reads(bytes(raw)) else nullcontext():
        MaskedSum.parse(fleet().layout, bytes(raw), "forged")


@cache
def masked_bytes() -> bytes:
    return masked(2)[0].to_bytes()


def reads(raw: bytes) -> bool:
    try:
        MaskedSum.parse(fleet().layout, raw, "forged")
    except StateError:
        return False
    return True
