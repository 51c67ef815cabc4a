"""What features count is declared once; everybody reads and says it by that declaration."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields

from mcutrain_host.saved import HEADER_BYTES
from mcutrain_host.state import StateSection, StateTable

from mcutrain.features import FACTS, FEATURES, FeatureFacts
from mcutrain.features.facts import FactTable, fact
from mcutrain.runs.result import SimulationResult
from mcutrain.simulation import EpochResult

NAMES = ["skipped", "levels", "drift"]
"""In the order in which logs and summaries have always had them."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """Two facts that no feature has: counts, and a number that holds."""

    pairs: tuple[int, ...] | None = fact(
        "made_pairs",
        tuple,
        is_count=True,
        brief=lambda pairs: f"{len(pairs)} pairs",
        line=lambda pairs, steps: f"{sum(pairs)} of {steps}",
    )
    half: float | None = fact(
        "made_half",
        lambda words: words[1] / 2,
        is_count=False,
        brief=lambda half: f"half {half:g}",
        line=lambda half, steps: f"{half:g}",
    )


MADE = FactTable.of_fields(Made)
TABLE = StateTable(
    (
        StateSection(name="a", kind="made_pairs", offset=0, dtype="uint32", shape=(2,)),
        StateSection(name="b", kind="made_half", offset=8, dtype="int32", shape=(2,)),
    )
)
SAVED = bytes(HEADER_BYTES) + struct.pack("<IIii", 7, 9, 0, -3)


def test_facts_are_read_by_the_table_of_a_state() -> None:
    assert MADE.read(SAVED, TABLE) == {"pairs": (7, 9), "half": -1.5}
    assert MADE.read(SAVED, StateTable(TABLE.sections[1:])) == {"half": -1.5}
    assert MADE.read(SAVED, StateTable()) == {}


def test_counts_are_of_the_time_since_and_other_facts_as_they_are() -> None:
    now = MADE.read(SAVED, TABLE)
    before = [{"pairs": (1, 2), "half": 4.0}, {"pairs": (3, 3), "half": 5.0}, MADE.none()]
    assert MADE.since(now, before) == {"pairs": (3, 4), "half": -1.5}
    assert MADE.since(now, []) == now
    assert MADE.since({}, before) == {}


def test_summaries_and_epochs_say_each_fact_that_is_known() -> None:
    counted = MADE.read(SAVED, TABLE)
    assert list(MADE.lines(counted, 40)) == ["pairs           16 of 40", "half            -1.5"]
    assert MADE.brief(counted) == ", 2 pairs, half -1.5"
    assert MADE.brief({**MADE.none(), "half": 0.0}) == ", half 0"
    assert list(MADE.lines(MADE.none(), 40)) == []


def test_a_zero_is_said_and_none_is_not() -> None:
    assert FACTS.brief({"skipped": 0, "levels": None}) == ", 0 skipped"
    assert next(FACTS.lines({"drift": 0.0}, 5)).startswith("drift           none")


def test_facts_of_features_are_fields_of_every_result() -> None:
    assert list(FACTS.facts) == NAMES == [f.name for f in fields(FeatureFacts)]
    for result in (EpochResult, SimulationResult):
        assert [f.name for f in fields(result) if f.name in FACTS.facts] == NAMES
    assert FACTS.none() == dict.fromkeys(NAMES)


def test_each_fact_is_read_from_words_that_a_feature_keeps() -> None:
    kinds = {row.kind for feature in FEATURES for row in feature.words}
    assert {one.kind for one in FACTS.facts.values()} <= kinds
